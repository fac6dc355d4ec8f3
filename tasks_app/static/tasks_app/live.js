/* What all live pages share: a socket that comes back by itself, and figures as people read them. */
"use strict";

/* Opens a socket of this service and hands each message to `take`. `path` may be a function: it is asked anew each time.
   A socket that the service has closed for good (its work is done, or this person may not see it) stays closed. */
function live(path, take, told = () => {}) {
  let pause = 500;
  const open = () => {
    const address = typeof path === "function" ? path() : path;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${address}`);
    socket.onopen = () => { pause = 500; told("open"); };
    socket.onmessage = (message) => {
      const said = JSON.parse(message.data);
      if (said.type === "error") told("refused", said.error.message);
      else take(said);
    };
    socket.onclose = (event) => {
      if (event.code === 1000) { told("done"); return; }
      if (event.code >= 4400 && event.code < 4500) return;
      told("lost");
      setTimeout(again, pause);
      pause = Math.min(pause * 2, 10000);
    };
  };
  /* Nobody looks at a hidden page. */
  const again = () => {
    if (!document.hidden) open();
    else document.addEventListener("visibilitychange", again, { once: true });
  };
  again();
}

function sized(bytes) {
  for (const [length, name] of [[2 ** 40, "TB"], [2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "kB"]]) {
    if (bytes >= length) return `${short(bytes / length)} ${name}`;
  }
  return `${bytes} B`;
}

function lasting(seconds) {
  if (seconds == null) return "–";
  for (const [length, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= length) return `${short(seconds / length)} ${name}`;
  }
  return `${short(seconds)} s`;
}

function short(value) {
  return value < 9.95 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

/* An element with a class, a text that is never read as HTML, and children. */
function made(tag, className = "", text = null, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== null) element.textContent = text;
  element.append(...children);
  return element;
}

function showState(element, status) {
  if (element.textContent === status) return;
  element.textContent = status;
  element.className = `state ${status}`;
}

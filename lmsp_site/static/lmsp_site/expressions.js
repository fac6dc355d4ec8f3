/* What the theme's pages write into their x- attributes, evaluated without eval(): the policy of these pages allows none.

   Alpine compiles each expression to a function, which takes 'unsafe-eval'. It lets its evaluator be replaced; this one
   parses the part of JavaScript that such attributes use and walks through the tree: literals, objects, arrays, members,
   calls, operators, assignments, `if`, and functions of one expression. See docs/decisions/0037. */
"use strict";
(() => {
  const TOKEN = /\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_$][\w$]*)|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(=>|===|!==|==|!=|<=|>=|&&|\|\||\?\?|\?\.|\+=|-=|\+\+|--|[-+*/%<>!?:;,.=(){}[\]]))/gy;
  const BINARY = [["||", "??"], ["&&"], ["===", "!==", "==", "!="], ["<", ">", "<=", ">="], ["+", "-"], ["*", "/", "%"]];
  const APPLY = {
    "===": (a, b) => a === b, "!==": (a, b) => a !== b,
    "==": (a, b) => a == b, "!=": (a, b) => a != b, // as the attributes mean them
    "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b,
    "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "%": (a, b) => a % b,
  };
  const CONSTANTS = { true: true, false: false, null: null, undefined };

  function tokens(text) {
    const found = [];
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < text.trimEnd().length) {
      const at = TOKEN.lastIndex;
      const match = TOKEN.exec(text);
      if (!match) throw new SyntaxError(`not understood at ${at}: ${text}`);
      const [, number, name, string, sign] = match;
      if (number !== undefined) found.push({ kind: "value", value: Number(number) });
      else if (name !== undefined) found.push({ kind: "name", text: name });
      else if (string !== undefined) found.push({ kind: "value", value: string.slice(1, -1).replace(/\\(.)/g, "$1") });
      else found.push({ kind: "sign", text: sign });
    }
    return found;
  }

  /* Each parsing function returns a function of the scope that yields the value. References also have `assign`. */
  class Parser {
    constructor(text) { this.text = text; this.tokens = tokens(text); this.at = 0; }
    get next() { return this.tokens[this.at] || { kind: "end", text: "" }; }
    is(sign) { return this.next.kind === "sign" && this.next.text === sign; }
    isWord(word) { return this.next.kind === "name" && this.next.text === word; }
    take(sign) { if (!this.is(sign)) return false; this.at += 1; return true; }
    expect(sign) { if (!this.take(sign)) throw new SyntaxError(`${sign} is missing: ${this.text}`); }

    program() {
      const body = this.statements();
      if (this.next.kind !== "end") throw new SyntaxError(`not understood: ${this.text}`);
      return body;
    }

    statements() {
      const all = [];
      while (this.next.kind !== "end" && !this.is("}")) {
        if (!this.take(";")) all.push(this.statement());
      }
      return (scope) => all.reduce((_, run) => run(scope), undefined);
    }

    statement() {
      if (!this.isWord("if")) return this.expression();
      this.at += 1;
      this.expect("(");
      const test = this.expression();
      this.expect(")");
      const then = this.block();
      let otherwise = () => undefined;
      if (this.isWord("else")) { this.at += 1; otherwise = this.block(); }
      return (scope) => (test(scope) ? then(scope) : otherwise(scope));
    }

    block() {
      if (!this.take("{")) return this.statement();
      const body = this.statements();
      this.expect("}");
      return body;
    }

    expression() {
      const parameters = this.parameters();
      if (parameters) {
        const body = this.expression();
        return (scope) => (...values) => body(within(scope, parameters, values));
      }
      const left = this.conditional();
      for (const sign of ["=", "+=", "-="]) {
        if (this.take(sign)) {
          const right = this.expression();
          const change = { "=": (_, b) => b, "+=": APPLY["+"], "-=": APPLY["-"] }[sign];
          return (scope) => left.assign(scope, change(sign === "=" ? undefined : left(scope), right(scope)));
        }
      }
      return left;
    }

    parameters() {
      const { tokens: all, at } = this;
      const names = [];
      let end = at;
      if (all[at]?.kind === "name" && all[at + 1]?.text === "=>") { names.push(all[at].text); end = at + 1; }
      else if (all[at]?.kind === "sign" && all[at].text === "(") {
        end = at + 1;
        while (all[end]?.kind === "name" || all[end]?.text === ",") { if (all[end].kind === "name") names.push(all[end].text); end += 1; }
        if (all[end]?.text !== ")") return null;
        end += 1;
      }
      if (all[end]?.kind !== "sign" || all[end].text !== "=>") return null;
      this.at = end + 1;
      return names;
    }

    conditional() {
      const test = this.binary(0);
      if (!this.take("?")) return test;
      const yes = this.expression();
      this.expect(":");
      const no = this.expression();
      return (scope) => (test(scope) ? yes(scope) : no(scope));
    }

    binary(level) {
      if (level === BINARY.length) return this.unary();
      let left = this.binary(level + 1);
      for (let sign; (sign = BINARY[level].find((each) => this.is(each)));) {
        this.at += 1;
        const [before, right] = [left, this.binary(level + 1)];
        if (sign === "&&") left = (scope) => before(scope) && right(scope);
        else if (sign === "||") left = (scope) => before(scope) || right(scope);
        else if (sign === "??") left = (scope) => before(scope) ?? right(scope);
        else left = (scope) => APPLY[sign](before(scope), right(scope));
      }
      return left;
    }

    unary() {
      if (this.take("!")) { const value = this.unary(); return (scope) => !value(scope); }
      if (this.take("-")) { const value = this.unary(); return (scope) => -value(scope); }
      return this.postfix();
    }

    postfix() {
      let value = this.primary();
      for (;;) {
        const maybe = this.is("?.");
        if (this.take(".") || this.take("?.")) {
          const name = this.next.text;
          this.at += 1;
          value = member(value, () => name, maybe);
        } else if (this.take("[")) {
          const key = this.expression();
          this.expect("]");
          value = member(value, key, false);
        } else if (this.take("(")) value = call(value, this.list(")"));
        else if (this.is("++") || this.is("--")) {
          const [target, by] = [value, this.next.text === "++" ? 1 : -1];
          this.at += 1;
          value = (scope) => { const before = target(scope); target.assign(scope, before + by); return before; };
        } else return value;
      }
    }

    list(end) {
      const items = [];
      while (!this.take(end)) { items.push(this.expression()); if (!this.is(end)) this.expect(","); }
      return items;
    }

    primary() {
      const token = this.next;
      this.at += 1;
      if (token.kind === "value") return () => token.value;
      if (token.kind === "name") return token.text in CONSTANTS ? () => CONSTANTS[token.text] : variable(token.text);
      if (token.text === "(") { const inner = this.expression(); this.expect(")"); return inner; }
      if (token.text === "[") { const items = this.list("]"); return (scope) => items.map((item) => item(scope)); }
      if (token.text === "{") return this.object();
      throw new SyntaxError(`not understood: ${this.text}`);
    }

    object() {
      const fields = [];
      while (!this.take("}")) {
        const key = this.next.kind === "value" ? this.next.value : this.next.text;
        this.at += 1;
        fields.push([key, this.take(":") ? this.expression() : variable(key)]);
        if (!this.is("}")) this.expect(",");
      }
      return (scope) => Object.fromEntries(fields.map(([key, value]) => [key, value(scope)]));
    }
  }

  function variable(name) {
    const read = (scope) => {
      if (name in scope) return scope[name];
      if (name in window) return window[name];
      return globalOf(name);
    };
    read.assign = (scope, value) => { scope[name] = value; return value; };
    return read;
  }

  /* Names that the theme's script declares with `const`, which makes them no property of the window. */
  function globalOf(name) {
    if (name === "moveRecords" && typeof moveRecords !== "undefined") return moveRecords;
    return undefined;
  }

  function member(object, key, maybe) {
    const read = (scope) => { const of = object(scope); return maybe && of == null ? undefined : of[key(scope)]; };
    read.assign = (scope, value) => { object(scope)[key(scope)] = value; return value; };
    read.owner = object;
    read.key = key;
    return read;
  }

  function call(target, items) {
    return (scope) => {
      const values = items.map((item) => item(scope));
      if (!target.owner) {
        const [found, owned] = [target(scope), target(scope)];
        return found === undefined ? owned : found.apply(scope, values);
      }
      const owner = target.owner(scope);
      return owner[target.key(scope)](...values);
    };
  }

  function within(scope, names, values) {
    const own = Object.fromEntries(names.map((name, place) => [name, values[place]]));
    return new Proxy(scope, {
      has: (_, name) => name in own || name in scope,
      get: (_, name) => (name in own ? own[name] : scope[name]),
      set: (_, name, value) => { (name in own ? own : scope)[name] = value; return true; },
    });
  }

  const parsed = new Map();
  function program(text) {
    if (!parsed.has(text)) parsed.set(text, text.trimStart().startsWith("{") ? new Parser(text).expression() : new Parser(text).program());
    return parsed.get(text);
  }

  /* A style as text would be an inline style, which the policy refuses; as an object it is set by the script. */
  function styleOf(expression, value) {
    if (typeof value !== "string" || !/^'[a-z-]+: ' \+/.test(expression)) return value;
    const [name, ...rest] = value.split(":");
    return { [name.trim()]: rest.join(":").trim() };
  }

  document.addEventListener("alpine:init", () => {
    const { Alpine } = window;
    Alpine.setEvaluator((element, expression) => {
      const stack = Alpine.closestDataStack(element);
      return (receive = () => {}, { scope = {}, params = [] } = {}) => {
        const names = Alpine.mergeProxies([scope, { $el: element }, ...stack]);
        const give = (value) => (typeof value === "function" ? give(value.apply(names, params)) : receive(value));
        try {
          if (typeof expression === "function") give(expression);
          else give(styleOf(expression, program(expression)(names)));
        } catch (error) {
          console.error(`${error.message}\n\n${expression}`, element);
        }
      };
    });
  });
})();

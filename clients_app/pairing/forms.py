"""What a person decides about a pairing, on the page and in the admin."""

from typing import Any

from django import forms

from clients_app import scopes
from clients_app.pairing import deciding
from clients_app.pairing.models import Pairing
from lmsp_site.audit_log import Actor

_APPROVE, _DENY = "approve", "deny"


class DecisionForm(forms.Form):
    """Approve, with some of the scopes that the program wishes for, or deny."""

    decision = forms.ChoiceField(choices=[(_APPROVE, "Approve"), (_DENY, "Deny")])
    scopes = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)

    def __init__(self, pairing: Pairing, data: Any = None) -> None:
        super().__init__(data, initial={"scopes": pairing.wished_scopes})
        self.pairing = pairing
        field = self.fields["scopes"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(scope, f"{scope}: {scopes.MEANING[scope]}") for scope in pairing.wished_scopes]

    def carry_out(self, actor: Actor) -> str:
        """Do what was decided and return how it is told.

        Raises:
            CannotDecide: see its message.
        """
        if not self.is_valid():
            raise deciding.ScopesNotWished("Choose approve or deny, and of the scopes only those that are listed.")
        if self.cleaned_data["decision"] == _DENY:
            deciding.deny(self.pairing, actor)
            return f"{self.pairing.name} was denied and gets no token."
        deciding.approve(self.pairing, actor, self.cleaned_data["scopes"])
        return f"{self.pairing.name} was approved and gets its token when it asks the next time."

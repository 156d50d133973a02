// A browser keeps no answer to a form: Back and reload lead to the form instead, filled in as it was sent.
const answered = document.querySelector("[data-way-back]");
if (answered) history.replaceState(null, "", answered.dataset.wayBack);

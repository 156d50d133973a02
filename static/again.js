// A page that could not be read asks again by itself, and comes as soon as it can; a form waits for whoever sent it.
const one = (query) => document.querySelector(query);
let tries = 0;
async function ask() {
  if (!document.hidden) {
    const answers = await fetch(location.href, { signal: AbortSignal.timeout(20000) }).then(({ status }) => status < 500, () => false);
    if (answers && !one("main form")) return location.reload();
    tries += 1;
    one("[data-asks]").textContent = answers ? "" : `Asked again by itself, ${tries === 1 ? "once" : tries + " times"}: not answered yet.`;
    if (answers) return (one("[data-answered]").textContent = "Pages are answered again: send it once more.");
  }
  setTimeout(ask, Math.min(10, 2 ** tries) * (800 + Math.random() * 400));
}
setTimeout(ask, 1500);

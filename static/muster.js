// Muster: theme, keys and live updates of a page. No framework, no build; pages are whole without it.
const one = (query, from = document) => from.querySelector(query);
const all = (query, from = document) => [...from.querySelectorAll(query)];
const html = document.documentElement;
const body = document.body;

// Theme: as the system, light, dark; kept in a cookie, so that the server writes data-theme.
const themes = ["auto", "light", "dark"];
all("[data-theme-next]").forEach((button) => {
  const show = () => (button.textContent = "Theme: " + (html.dataset.theme || "auto"));
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(html.dataset.theme || "auto") + 1) % 3];
    if (next === "auto") delete html.dataset.theme;
    else html.dataset.theme = next;
    const safe = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `muster_theme=${next}; path=/; max-age=31536000; samesite=lax${safe}`;
    show();
  });
  show();
});

// Keys: single letters act only outside fields and dialogs.
const places = { o: "/", g: "/groups/", t: "/cluster/#partitions", b: "/cluster/", r: "/reassignments/", j: "/journal/" };
let before = "";
document.addEventListener("keydown", (event) => {
  // What was opened over the page is left as a dialog is, also from its fields.
  const over = event.key === "Escape" && event.target.closest(".asof[open]");
  if (over) { over.open = false; one("summary", over).focus(); }
  const typing = event.target.closest("input:not([type=checkbox], [type=radio]), select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || one("dialog:modal")) return;
  const rows = all("main tbody th[scope=row] a"), at = rows.indexOf(document.activeElement);
  const page = { "[": "prev", "]": "next" }[event.key];
  if (event.key === "?") one("#help")?.showModal();
  else if (event.key === " " && event.target === body) { event.preventDefault(); one(".live")?.click(); }
  else if (before === "g" && places[event.key]) location.href = places[event.key];
  else if (event.key === "f" || event.key === "/") { event.preventDefault(); one(".filter [type=search]")?.focus(); }
  else if (event.key === "j" || event.key === "k") (rows[at + (event.key === "j" ? 1 : -1)] || rows[0])?.focus();
  else if (page) one(`[rel=${page}]`)?.click();
  before = event.key;
});

// Ages go on, also while nothing is connected. Clocks may differ: the offset is taken from the server's word.
const written = (ms) => {
  const s = Math.max(0, Math.floor(ms / 1000)), two = (a, x, b, y) => `${Math.floor(a)}${x} ${Math.floor(b)}${y}`;
  if (s < 1) return "<1s";
  if (s < 60) return s + "s";
  if (s < 3600) return two(s / 60, "m", s % 60, "s");
  if (s < 86400) return two(s / 3600, "h", (s % 3600) / 60, "m");
  return two(s / 86400, "d", (s % 86400) / 3600, "h");
};
let ahead = Date.now() - (Number(body.dataset.now) || Date.now());
const ages = () => all("[data-since]").forEach((age) => {
  const text = written(Date.now() - ahead - age.dataset.since);
  if (age.textContent !== text) age.textContent = text;
});

// Live: what changed is read again over HTTP and put in where it stands; nothing moves under the pointer.
const busy = (node) => node.contains(document.activeElement) && document.activeElement !== body || node.matches(":hover");
const lately = new WeakMap();
const flash = (node) => {
  const shown = node.closest("[data-live]");
  if (!shown) return;
  // A value that changes with every look is marked once, not without end.
  const last = lately.get(shown) || 0;
  lately.set(shown, Date.now());
  if (Date.now() - last < 5000) return;
  shown.getAnimations().forEach((running) => running.cancel());
  shown.classList.remove("changed");
  void shown.offsetWidth;
  shown.classList.add("changed");
};
function same(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName &&
    (old.nodeType !== 1 || old.id === fresh.id && old.dataset.key === fresh.dataset.key);
}
// What htmx notes on a form while it asks is not of the page.
const dress = (node) => node.nodeType === 1 && (node.getAttribute("class") || "").replace(/ ?\bhtmx-\w+/g, "");
// A filter that comes by itself filters like one that the page began with.
const wire = (node) => node.nodeType === 1 && window.htmx?.process(node);
function put(old, fresh) {
  if (old.nodeType === 3) {
    if (old.data !== fresh.data) {
      const age = old.parentElement.matches("[data-since]");
      old.data = fresh.data;
      if (!age) flash(old.parentElement);
    }
    return;
  }
  // Which rows a page shows by itself may change, and its filter says which; what a person has chosen stays.
  if (old.matches?.("[type=radio]")) {
    const alike = all("[type=radio]", old.form).filter((one) => one.name === old.name);
    if (fresh.defaultChecked && alike.every((one) => one.checked === one.defaultChecked))
      alike.forEach((one) => (one.checked = one.defaultChecked = one === old));
    return;
  }
  if (old.nodeType !== 1 || old.matches("input, select, textarea, dialog, [data-sort-again]")) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (name === "class" && old.classList.contains("changed")) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.matches("[data-frozen]")) return keep(old, fresh);
  const from = [...old.childNodes], to = [...fresh.childNodes];
  if (from.length === to.length && from.every((node, i) => same(node, to[i]))) from.forEach((node, i) => put(node, to[i]));
  else if (old.matches("[data-part]")) merge(old, to);
  else if (!busy(old)) { old.replaceChildren(...to); to.forEach(wire); }
  else owed = old;
}
// What a part holds came or went: what is still there stays the same node, so that focus and typed text stay.
function merge(old, to) {
  const left = [...old.childNodes];
  let at = old.firstChild;
  for (const fresh of to) {
    const place = left.findIndex((node) => same(node, fresh) && dress(node) === dress(fresh));
    const [found] = place < 0 ? [] : left.splice(place, 1);
    if (!found) { old.insertBefore(fresh, at); wire(fresh); continue; }
    if (found === at) at = at.nextSibling;
    else if (!found.contains(document.activeElement)) old.insertBefore(found, at);
    put(found, fresh);
  }
  left.forEach((node) => node.remove());
}
// Order is frozen while the page is open: rows stay where they are, the button says how many would move.
function keep(old, fresh) {
  const rows = new Map(all("[data-key]", fresh).map((row, i) => [row.dataset.key, [row, i]]));
  let moved = 0;
  all("[data-key]", old).forEach((row, i) => {
    const found = rows.get(row.dataset.key);
    if (found) put(row, found[0]);
    if (!found || found[1] !== i) moved += 1;
    row.toggleAttribute("data-gone", !found);
    rows.delete(row.dataset.key);
  });
  moved += rows.size;
  const button = one("[data-sort-again]");
  if (!button) return;
  button.hidden = !moved;
  button.textContent = `${moved} row${moved === 1 ? " has" : "s have"} changed places: sort again`;
}
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-sort-again]")) location.reload();
  if (event.target.closest("[data-connect]")) connect(true);
});

// On a telephone choices stand in a row that scrolls: a browser takes for seen what is seen in part.
document.addEventListener("focusin", ({ target }) => {
  if (target.matches(".toggle input:focus-visible")) target.parentElement.scrollIntoView({ block: "nearest", inline: "nearest" });
});

// An answer may take seconds: the button shows that it was pressed. Pressed again it asks again, and is done once.
// What is larger than the server takes (web.doors) is not sent: its refusal would leave nothing of what was typed.
const mostBytes = 2 ** 20;
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".asking")) return;
  // A browser sends each end of a line in two characters.
  const length = new URLSearchParams(new FormData(event.target, event.submitter)).toString().replace(/(%0D)?%0A/g, "%0D%0A").length;
  if (length <= mostBytes) return event.submitter?.setAttribute("aria-busy", "true");
  event.preventDefault();
  say(`Nothing was sent: this form holds ${(length / mostBytes).toFixed(1)} MiB, and one MiB is taken at once. Ask for less at a time.`, "bad", true);
});
addEventListener("pageshow", () => all("[aria-busy]").forEach((button) => button.removeAttribute("aria-busy")));

// Filters by htmx: who was signed out meanwhile goes to the door, and a failure is said, with the list as it was.
document.addEventListener("htmx:afterSettle", ages);
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!new URL(event.detail.xhr.responseURL || location.href).pathname.startsWith("/login/")) return;
  event.detail.shouldSwap = false;
  location.reload();
});
// Somebody typed or chose on meanwhile: the form, which the answer may replace, asks once more by itself.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const { elt, formData } = detail.requestConfig;
  const said = (data) => String(new URLSearchParams(data));
  if (elt.matches("form.filter") && said(formData) !== said(new FormData(elt))) detail.shouldSwap = false;
});
// What changed while it was asked may be missing in its answer, which replaces what was read since.
const sent = new WeakMap();
document.addEventListener("htmx:beforeSend", ({ detail }) => sent.set(detail.xhr, changes));
document.addEventListener("htmx:afterSettle", ({ detail }) => sent.get(detail.xhr) !== changes && read());
const unread = () => say("The list could not be read. It is as it was before. Try again.", "bad", true);
for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"])
  document.addEventListener(name, ({ detail }) => detail.xhr?.status === 403 ? location.reload() : unread());
// Of an answer that something in between gave in our place nothing would be put where the list was.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.shouldSwap || detail.serverResponse.includes('id="help"')) return;
  detail.shouldSwap = false;
  unread();
});

const live = one(".live"), watch = body.dataset.watch;
let socket, boot = "", sequence = 0, heard = 0, tries = 0, retry, reading = false, again = false, paused = false, answers = true, silent = false;
let changes = 0, owed = null, gone = false, begun = 0, tried = 0, polled = 0, title = document.title;
const findings = () => one("#tiles span")?.textContent;
let known = findings();
// When, by the server's clock, all that is shown was true: rendered then, or looked at and not changed since.
let fresh = Number(body.dataset.now) || Date.now();
const serverNow = () => Date.now() - ahead;
function say(text, mark = "done", stays = false) {
  const toast = document.createElement("p"), shape = document.createElement("i");
  toast.className = "toast";
  shape.className = "mark " + mark;
  toast.append(shape, text);
  one(".toasts").replaceChildren(toast);
  if (!stays) return setTimeout(() => toast.remove(), 6000);
  const close = document.createElement("button");
  close.className = "link";
  close.textContent = "Close";
  close.onclick = () => toast.remove();
  toast.append(" ", close);
}
async function read() {
  if (paused) return;
  if (reading) { again = true; return; }
  reading = true;
  const asked = location.href;
  tried = Date.now();
  try {
    const answer = await fetch(asked, { headers: { "X-Muster-Live": "1", ...(body.dataset.seen && { "X-Muster-Seen": body.dataset.seen }) }, credentials: "same-origin", signal: AbortSignal.timeout(20000) });
    if (answer.redirected && new URL(answer.url).pathname.startsWith("/login/")) return location.reload();
    // A proxy that finds no web process may say so, too.
    if (answer.status === 404 && (await answer.text()).includes('class="brand"')) {
      if (!gone) say("It is gone: deleted while this page was open. The values are its last.", "dead", true);
      gone = answers = true;
      return;
    }
    // The role was taken away: the page itself says so.
    if (answer.status === 403) return location.reload();
    // Of the database only the server tells: a page may as well fail by itself.
    if (!answer.ok) {
      answers = false;
      const told = answer.status === 503 ? await answer.text() : "";
      silent = told.includes('class="brand"') && (silent || told.includes("The database did not answer"));
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Something in between answered in our place, or broke off in the middle: that is not what the page shows.
    if (!one("#help", page)) { answers = silent = false; return; }
    // A filter was changed meanwhile: this is the answer to what nobody asks any more.
    if (asked !== location.href) { again = true; return; }
    // Somebody paused meanwhile: nothing moves until they go on, and then it is read again.
    if (paused) return;
    answers = true;
    gone = silent = false;
    owed = null;
    if (socket?.readyState !== 1 || Date.now() - heard > 3000) polled = Date.now();
    document.title = title = page.title;
    for (const name of ["rendered", "now"]) body.dataset[name] = page.body.dataset[name] || "";
    // The answer may have been long on its way: of what both clocks allow the least is believed to be new.
    const most = Date.now() - (Number(body.dataset.now) || Date.now());
    ahead = Math.min(most, Math.max(ahead, most - (Date.now() - tried)));
    fresh = Math.max(fresh, Number(body.dataset.now) || 0);
    all("[data-part]").forEach((part) => {
      const found = page.getElementById(part.id);
      if (found) put(part, document.adoptNode(found));
    });
    // Values are not read out one by one; that something is found, or is over, is.
    if (known !== (known = findings())) one("#heard").textContent = "Overview: " + known;
  } catch {
    answers = false;
    // Whoever told of the database is not reached any more.
    silent &&= Date.now() - heard < 3000;
  } finally {
    reading = false;
    if (again) { again = false; setTimeout(read, 250); }
  }
}
function connect(now) {
  if (!watch || socket && socket.readyState < 2) { if (!now) return; socket?.close(); }
  clearTimeout(retry);
  begun = Date.now();
  const mine = (socket = new WebSocket(location.origin.replace("http", "ws") + "/ws/live/"));
  mine.onopen = () => mine.send(JSON.stringify({ watch, rendered: body.dataset.rendered, boot, since: sequence }));
  if (polled > heard) read();
  mine.onmessage = (event) => {
    const word = JSON.parse(event.data);
    heard = Date.now();
    tries = 0;
    sequence = word.sequence;
    if (word.boot) {
      if (word.missed === "nothing") say("Connected again. Nothing changed meanwhile.");
      else if (word.missed === "something") say(`Connected again. What changed meanwhile is ${paused ? "read when you go on" : "being read"}.`);
      else if (word.missed) { say(`Connected again. Whether anything changed meanwhile is not known: the page is ${paused ? "read when you go on" : "being read again"}.`, "unknown"); read(); }
      boot = word.boot;
    }
    if (word.reading === false) { answers = false; silent = true; }
    else if (word.reading && !answers && !gone && Date.now() - tried > 3000) read();
    if (word.changed) { changes += 1; read(); }
    else if (answers && !reading && !paused && word.as_of_ms) fresh = Math.max(fresh, word.as_of_ms);
    show();
  };
  mine.onclose = (event) => {
    if (mine !== socket) return;
    if (event.code === 4401) return location.reload();
    lost();
    // A browser does not say why nobody took it. Of a session that ended meanwhile the page itself leads to the door;
    // where a proxy lets no websocket through, it is read by asking.
    if (heard <= begun && tried < begun) read();
  };
}
function lost() {
  socket = undefined;
  const wait = Math.min(polled > heard ? 10 : 15, 2 ** tries++) * (0.8 + Math.random() * 0.4);
  all("[data-again]").forEach((text) => (text.textContent = `Connecting again in ${Math.ceil(wait)}s.`));
  clearTimeout(retry);
  if (!document.hidden) retry = setTimeout(connect, wait * 1000);
}
// A connection can die without a word, and then says nothing for minutes: after ten silent seconds it counts as lost.
function watchdog() {
  const now = Date.now();
  if (!socket || document.hidden || now - Math.max(heard, begun) < 10000) return;
  const dead = socket;
  lost();
  dead.close();
  read();
}
function show() {
  const asks = polled > heard, quiet = Date.now() - Math.max(heard, polled), unheard = quiet > (asks ? 20000 : 3000);
  const off = unheard || !answers || gone, never = !boot && !asks && !unheard, age = written(quiet);
  const asof = new Date(fresh).toISOString().slice(11, 19), old = serverNow() - fresh;
  live.dataset.state = paused ? "paused" : never ? "wait" : off ? "off" : asks ? "poll" : "on";
  html.toggleAttribute("data-stale", off && !paused);
  html.toggleAttribute("data-over", off && !paused && !gone);
  const state = paused ? "Paused, " + written(old) : never ? "Connecting" : !off ? (owed ? "Live, held" : asks ? "Live by polling, " + written(old) : `Live, ${(Math.max(quiet, old) / 1000).toFixed(1)}s`) : gone ? "Gone" : unheard ? "Not connected, " + age : "No data now";
  if (live.textContent !== state) live.textContent = state;
  // What a person points at, or is in, may be older than the rest of the page.
  live.title = paused ? "Press to go on." : owed ? "What changed where you point or type is put in when you leave it. Press to pause." : asks && !off ? "No live connection comes through: the page is read again every 10s. Press to pause." : "Press to pause.";
  document.title = off && !paused ? "Not now: " + title : title;
  all("[data-notlive]").forEach((strip) => (strip.hidden = !off || paused || gone));
  all("[data-why]").forEach((text) => (text.textContent = unheard ? "Not connected" : "No data now"));
  all("[data-meanwhile]").forEach((text) => (text.hidden = !silent));
  all("[data-failed]").forEach((text) => (text.hidden = unheard || silent));
  all("[data-old]").forEach((text) => (text.textContent = written(old)));
  // A page that nothing changes stays open over midnight.
  all("[data-day]").forEach((text) => (text.textContent = new Date(fresh).toISOString().slice(0, 10)));
  all("[data-asof], main h1").forEach((text) => (text.matches("h1") ? (text.dataset.then = asof) : (text.textContent = asof)));
}
if (live) {
  heard = Date.now();
  // Nobody asked while it was paused: that is no silence of who answers.
  live.addEventListener("click", () => { paused = !paused; if (!paused) { if (polled > heard) polled = Date.now(); read(); } show(); });
  let hidden;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => socket?.close(), 60000);
    else if (!socket || socket.readyState > 1) connect();
  });
  // The machine has its network again: what waited for the next try need not. Hidden pages wait until they are seen.
  addEventListener("online", () => document.hidden || connect());
  setInterval(() => {
    ages();
    watchdog();
    show();
    // What was under the pointer or held the focus is put in as soon as it is left.
    if (owed && !busy(owed)) { owed = null; read(); }
  }, 500);
  connect();
  show();
}

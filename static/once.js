// A link signs in once: pressed twice, a browser drops the answer to the first press, and the second is refused.
const form = document.querySelector("form"), button = form.querySelector(".btn");
let sentAt = -Infinity;
form.addEventListener("submit", (event) => {
  if (performance.now() - sentAt < 20000) return event.preventDefault();
  sentAt = performance.now();
  button.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => button.removeAttribute("aria-busy"));

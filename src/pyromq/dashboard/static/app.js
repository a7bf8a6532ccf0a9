// What the pages do beyond HTML: fresh figures every two seconds, local times, the crosshair of charts, keys.
// Without it every page works; it shows the figures of the moment when it was loaded.

const policy = globalThis.trustedTypes?.createPolicy("pyromq", { createHTML: (text) => text });
const trusted = (text) => (policy ? policy.createHTML(text) : text);
const EVERY_MS = 2000;

// --- times -----------------------------------------------------------------------------------------------------------

const moment = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "medium" });
const exact = new Intl.DateTimeFormat(document.documentElement.lang, {
  year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});

function localTimes(root) {
  for (const time of root.querySelectorAll("time[data-local]")) {
    time.textContent = (time.dataset.local === "exact" ? exact : moment).format(new Date(time.dateTime));
  }
}

// --- fresh figures ---------------------------------------------------------------------------------------------------

let live = true;
let asking = null;
let have = { address: "", tag: "" }; // which parts are shown: they come again only if they are others

async function refresh() {
  if (!live || document.hidden || asking) return;
  asking = new AbortController();
  const headers = { "X-Fragment": "1" };
  if (have.address === location.href) headers["If-None-Match"] = have.tag;
  try {
    const answer = await fetch(location.href, { signal: asking.signal, headers });
    if (answer.redirected) return location.reload(); // the session has ended
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(trusted(await answer.text()), "text/html");
    let isWhole = true;
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.innerHTML !== part.dataset.was) isWhole = swap(part, next) && isWhole;
    }
    if (isWhole) have = { address: location.href, tag: answer.headers.get("ETag") ?? "" };
  } catch {
    // the dashboard is away: what stands there stays, and the next try tells
  } finally {
    asking = null;
  }
}

function swap(part, next) {
  const was = next.innerHTML;
  if (part.contains(document.activeElement) && document.activeElement.matches("input, button, select")) return false;
  if (part.matches(":hover") && part.querySelector(".tip:not([hidden])")) return false;
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const scrolled = part.querySelector(".scroll")?.scrollLeft ?? 0;
  part.replaceChildren(...document.adoptNode(next).childNodes);
  part.dataset.was = was;
  localTimes(part);
  if (scrolled) part.querySelector(".scroll").scrollLeft = scrolled;
  if (focused) [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  return true;
}

// --- charts ----------------------------------------------------------------------------------------------------------

function crosshair(event) {
  const figure = event.target.closest?.("[data-chart]");
  if (!figure) return;
  const told = JSON.parse(figure.querySelector("script").textContent);
  const [box, tip, cross] = [figure.querySelector("svg").getBoundingClientRect(), figure.querySelector(".tip"), figure.querySelector(".cross")];
  const share = (event.clientX - box.left) / box.width;
  if (event.type === "pointerleave" || share < 0 || share > 1 || !told.points.length) {
    tip.hidden = true;
    cross.setAttribute("transform", "translate(-9 0)");
    return;
  }
  const at = told.begin + share * (told.end - told.begin);
  const [when, value] = told.points.reduce((best, one) => (Math.abs(one[0] - at) < Math.abs(best[0] - at) ? one : best));
  const x = ((when - told.begin) / (told.end - told.begin)) * 600 + 9;
  cross.setAttribute("transform", `translate(${x} 0)`);
  const shown = value === null ? "–" : `${value.toLocaleString(undefined, { maximumFractionDigits: 1 })}${told.unit}`;
  tip.textContent = `${new Date(when).toLocaleTimeString()}  ${shown}`;
  tip.hidden = false;
}

// --- keys ------------------------------------------------------------------------------------------------------------

let going = false;

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (going) {
    going = false;
    document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  } else if (event.key === "g") {
    going = true;
  } else if (event.key === "l") {
    live = !live;
    document.documentElement.toggleAttribute("data-still", !live);
  } else if (event.key === "j" || event.key === "k") {
    const rows = [...document.querySelectorAll("tbody th a")];
    const at = rows.indexOf(document.activeElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "j" ? 1 : -1)))]?.focus();
  } else if (event.key === "[" || event.key === "]") {
    document.querySelector(event.key === "[" ? ".pager a[rel=prev]" : ".pager a[rel=next]")?.click();
  }
}

// --- login by the link's fragment, which reaches no log -----------------------------------------------------------------

function loginByLink() {
  const form = document.querySelector("form[data-login]");
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!form || !token) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.token.value = token;
  form.submit();
}

localTimes(document);
loginByLink();
addEventListener("hashchange", loginByLink);
addEventListener("keydown", keys);
addEventListener("pointermove", crosshair);
for (const part of document.querySelectorAll(".charts")) part.addEventListener("pointerleave", crosshair, true);
if (document.querySelector("[data-live]")) {
  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
}
let typing = 0;
for (const input of document.querySelectorAll("input[data-filter]")) {
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const wanted = new URL(input.form.action);
      for (const [name, value] of new FormData(input.form)) if (value) wanted.searchParams.set(name, value);
      history.replaceState(null, "", wanted);
      asking?.abort();
      asking = null;
      refresh();
    }, 150);
  });
}

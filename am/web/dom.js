// Making and changing elements. Text goes in as text, never as markup: there is no other way in
// this page, so a job that is called "<script>" is shown as just that.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Writing only what differs keeps selections, focus and the browser's layout as they are.
export function setText(element, text) {
  const value = String(text ?? "");
  if (element.textContent !== value) element.textContent = value;
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

// Makes the children of `parent` be `wanted`, in that order, moving as few as it can.
export function arrange(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let at = parent.firstElementChild;
  for (const child of wanted) {
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
}

// Pairs of term and value in a <dl>, updated in place; a pair without a value is left out.
export function setPairs(list, pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  list.known ??= new Map();
  arrange(
    list,
    shown.map(([term, value, title]) => {
      if (!list.known.has(term)) {
        list.known.set(term, make("div", {}, make("dt", {}, term), make("dd")));
      }
      const pair = list.known.get(term);
      setText(pair.lastChild, value);
      setAttribute(pair.lastChild, "title", title);
      return pair;
    }),
  );
}

// What a screen reader should say now. The visible figures change every two seconds and are quiet.
export function announce(text) {
  setText(byId("announcer"), text);
}

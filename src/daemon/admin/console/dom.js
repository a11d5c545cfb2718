// Elements of the page. What is shown comes from publishers, players and cameras, so it goes into the page as text only.

export const element = (id) => document.getElementById(id);

// An element with attributes and children, which are elements or texts.
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function button(text, act, label) {
  const made = make("button", { type: "button", "aria-label": label }, text);
  made.addEventListener("click", act);
  return made;
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setHidden(target, hidden) {
  if (target.hidden !== hidden) target.hidden = hidden;
}

// A row with a cell for each column: those of numbers to the right, the first one is the row's head.
export function makeRow(columns) {
  return make("tr", {}, ...columns.map((column, at) =>
    make(at === 0 ? "th" : "td", { scope: at === 0 && "row", class: column.number && "number" })));
}

export function setCells(row, texts) {
  texts.forEach((text, at) => {
    if (text !== null) setText(row.cells[at], text);
  });
}

// Pairs of title and text.
export function showFacts(target, list) {
  const key = list.map(([title]) => title).join();
  if (target.dataset.key !== key) {
    target.dataset.key = key;
    target.replaceChildren(...list.map(([title]) => make("div", {}, make("dt", {}, title), make("dd"))));
  }
  list.forEach(([, text], at) => setText(target.children[at].lastChild, text));
}

// Puts the rows of a table in the order of the list, and takes away those of what is gone.
export class Rows {
  constructor(body, create, show, id = (one) => one.id) {
    Object.assign(this, { body, create, show, id, kept: new Map() });
  }

  update(list) {
    const gone = new Set(this.kept.keys());
    list.forEach((one, at) => {
      const id = this.id(one);
      gone.delete(id);
      let row = this.kept.get(id);
      if (!row) this.kept.set(id, (row = this.create(one)));
      if (this.body.rows[at] !== row) this.body.insertBefore(row, this.body.rows[at] || null);
      this.show(row, one);
    });
    for (const id of gone) {
      this.kept.get(id).remove();
      this.kept.delete(id);
    }
  }
}

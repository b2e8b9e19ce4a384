// Elements and requests. Nothing here makes markup of a text: every value becomes a text node.

const shapes = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// el returns an element. Functions among the attributes listen to events of that name.
export const el = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

// shape returns an element of a drawing.
export const shape = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(shapes, name), attributes, children);

// byId returns the element with an id.
export const byId = (id) => document.getElementById(id);

// request sends a request to the console and returns its answer; an error has its message.
export async function request(path, body, signal) {
  const options = { signal, credentials: 'same-origin' };
  if (body !== undefined) {
    options.method = 'POST';
    options.headers = { 'Content-Type': 'application/json' };
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const text = await answer.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || `the console answers ${answer.status}`);
  }
  if (!answer.ok && !value.statements) throw new Error(value.error?.message ?? `${answer.status}`);
  return value;
}

const numbers = new Intl.NumberFormat('en');

// count writes a number with commas.
export const count = (n) => numbers.format(n);

// plural writes a number of things.
export const plural = (n, what) => `${count(n)} ${what}${n === 1 ? '' : 's'}`;

// bytes writes a size in the unit that fits.
export function bytes(n) {
  let unit = 0;
  for (; n >= 1000 && unit < 5; unit++) n /= 1024;
  const digits = unit === 0 || n >= 100 ? 0 : 1;
  return `${n.toFixed(digits)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}`;
}

// seconds writes a time in the unit that fits.
export function seconds(s) {
  if (s === 0) return '0 s';
  const units = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];
  const [of, name] = units.find(([of]) => s >= of) ?? units[units.length - 1];
  return `${Number((s / of).toPrecision(3))} ${name}`;
}

// short writes a number with three digits, as 12.3 k.
export function short(n) {
  const units = [[1e9, ' G'], [1e6, ' M'], [1e3, ' k']];
  const [of, name] = units.find(([of]) => Math.abs(n) >= of) ?? [1, ''];
  return Number((n / of).toPrecision(3)) + name;
}

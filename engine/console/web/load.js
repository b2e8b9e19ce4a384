// Parts of pages that the server has drawn.

// load returns an element of a page, whose scripts do not run.
export const load = (address, id) => new Promise((done, failed) => {
  const r = new XMLHttpRequest();
  r.open('GET', address);
  r.responseType = 'document';
  r.onload = () => {
    const found = r.response?.getElementById(id);
    if (found) done(document.adoptNode(found));
    else failed(new Error(`the console answers ${r.status}`));
  };
  r.onerror = () => failed(new Error('the console does not answer'));
  r.send();
});

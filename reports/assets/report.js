'use strict';
// Tables that sort and filter. Without this the page is complete: it only adds buttons to
// headings and a field above long tables.
(() => {
  const manyRows = 12;
  const missing = text => /^[–—-]?$/.test(text);

  // What a cell says, footnote marks aside; of "undefended / controlled" the controlled side.
  const said = cell => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll('sup').forEach(mark => mark.remove());
    return copy.textContent.trim().split(' / ').pop();
  };
  // The number that a text begins with; NaN where it begins with none.
  const number = text => {
    const found = text.replace(/\u202f/g, '').replace(/\u2212/g, '-').match(/^[<>=≤≥\s]*([-+]?\d+(\.\d+)?(e[-+]?\d+)?)/i);
    return found ? parseFloat(found[1]) : NaN;
  };

  // Compares a column's cells: as words where the heading says so or no cell has a number,
  // else as numbers, those without one last.
  const ranked = (rows, column, words) => {
    const texts = rows.map(row => row.cells[column].dataset.value ?? said(row.cells[column]));
    const numbers = texts.map(number);
    const numeric = !words && numbers.some(x => !isNaN(x));
    const key = new Map(rows.map((row, i) => [row, { missing: numeric ? isNaN(numbers[i]) : missing(texts[i]), value: numeric ? numbers[i] : texts[i] }]));
    return direction => (a, b) => {
      const [p, q] = [key.get(a), key.get(b)];
      if (p.missing || q.missing) return p.missing - q.missing;
      return direction * (numeric ? p.value - q.value : p.value.localeCompare(q.value, 'en', { numeric: true }));
    };
  };

  const sortable = table => {
    const body = table.tBodies[0], original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    if (original.length < 2 || original.some(row => row.cells.length !== heads.length)) return;
    heads.forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const next = { none: 'ascending', ascending: 'descending', descending: 'none' }[head.getAttribute('aria-sort') ?? 'none'];
        heads.forEach(other => other.removeAttribute('aria-sort'));
        if (next !== 'none') head.setAttribute('aria-sort', next);
        const order = next === 'none' ? original : [...original].sort(ranked(original, column, head.classList.contains('words'))(next === 'ascending' ? 1 : -1));
        body.append(...order);
        table.classList.toggle('sorted', next !== 'none');
      });
    });
  };

  const filterable = table => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length <= manyRows) return;
    const tools = document.createElement('div'), label = document.createElement('label');
    const field = document.createElement('input'), count = document.createElement('output');
    tools.className = 'filter';
    field.type = 'search';
    label.append('Filter rows ', field);
    count.setAttribute('aria-live', 'polite');
    tools.append(label, count);
    table.closest('.scroll').before(tools);
    const texts = rows.map(row => row.textContent.toLowerCase());
    const apply = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(word => word);
      let kept = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every(word => texts[i].includes(word));
        kept += !row.hidden;
      });
      count.value = words.length ? `${kept} of ${rows.length} rows` : `${rows.length} rows`;
      table.classList.toggle('filtered', words.length > 0);
    };
    field.addEventListener('input', apply);
    apply();
  };

  for (const table of document.querySelectorAll('.scroll > table')) {
    sortable(table);
    filterable(table);
  }

  // On a phone the list of sections would push the results off the first screen, and what explains them takes many.
  if (matchMedia('(max-width: 40rem)').matches) document.querySelectorAll('nav details, details.part').forEach(part => { part.open = false; });

  // A link into a folded part unfolds it.
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    for (let part = target; part; part = part.parentElement) if (part.tagName === 'DETAILS') part.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener('hashchange', unfold);
  if (location.hash) unfold();
})();

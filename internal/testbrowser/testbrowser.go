// Package testbrowser opens pages in a headless Chromium for tests and reports what they fetch, complain of or make
// hard to read. [Start] the browser, [Open] a page in it, then use the [Page].
package testbrowser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	pages "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"selfheal/internal/must"
)

// Start starts a headless Chromium for a test, which is skipped where there is none, unless SELFHEAL_BROWSER=required.
func Start(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no browser")
	}
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	there := func(name string) bool { _, err := exec.LookPath(name); return err == nil }
	i := slices.IndexFunc(names, there)
	if i < 0 && os.Getenv("SELFHEAL_BROWSER") == "required" {
		t.Fatal("no chromium or google-chrome in PATH, and SELFHEAL_BROWSER asks for one")
	} else if i < 0 {
		t.Skip("no chromium or google-chrome in PATH; SELFHEAL_BROWSER=required makes this a failure")
	}
	// The sandbox does not work as root nor in many containers, and the pages are our own.
	// It leaves files in its folder.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(names[i]), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+t.TempDir()))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting %s: %v", names[i], err)
	}
	return ctx
}

// Page is a page in a tab, with the browser's messages about it.
type Page struct {
	Context context.Context // of the tab
	t       *testing.T
	url     string

	mu       sync.Mutex
	messages []string // of the console, warnings or worse, and exceptions
	requests []string
	dialogs  int
}

// Open opens an HTML file in a new tab.
func Open(t *testing.T, browser context.Context, path string) *Page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &Page{t: t, Context: ctx, url: "file://" + filepath.ToSlash(path)}
	must.Do(t, chromedp.Listen(ctx, p.hear))
	must.Get(chromedp.Call(ctx, network.Enable, network.EnableParams{}))(t)
	p.Size(1280, 800)
	must.Do(t, chromedp.Do(ctx, chromedp.Navigate(p.url)))
	return p
}

func (p *Page) hear(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" || ev.Type == "warning" || ev.Type == "assert" {
			p.messages = append(p.messages, fmt.Sprintf("console.%s", ev.Type))
		}
	case *runtime.EventExceptionThrown:
		p.messages = append(p.messages, "exception: "+ev.ExceptionDetails.Text)
	case *browserlog.EventEntryAdded:
		if ev.Entry.Level == "error" || ev.Entry.Level == "warning" {
			p.messages = append(p.messages, string(ev.Entry.Level)+": "+ev.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, ev.Request.URL)
	case *pages.EventJavascriptDialogOpening:
		p.dialogs++
	}
}

// Eval runs a script in the page and returns its value.
func Eval[T any](p *Page, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.Context, chromedp.Evaluate[T](script))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// Do carries out steps in the page.
func (p *Page) Do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.Context, time.Minute)
	defer cancel()
	must.Do(p.t, chromedp.Do(ctx, steps...))
}

// Size sets the window's size, in CSS pixels; below 600 the page is a phone's.
func (p *Page) Size(width, height int64) {
	p.t.Helper()
	screen := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1,
		Mobile: width < 600}
	must.Get(chromedp.Call(p.Context, emulation.SetDeviceMetricsOverride, screen))(p.t)
}

// Quiet checks that nothing went wrong and nothing was fetched.
func (p *Page) Quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		p.t.Errorf("console: %s", m)
	}
	for _, r := range p.requests {
		if r != p.url && !strings.HasPrefix(r, "data:") {
			p.t.Errorf("request of %.200s", r)
		}
	}
	if !slices.Contains(p.requests, p.url) {
		p.t.Error("the file's own request was not seen: nor would others have been")
	}
	if p.dialogs > 0 {
		p.t.Errorf("%d dialogs", p.dialogs)
	}
}

// accessible holds checks that every page must pass; each returns what is wrong.
const accessible = `(() => {
  const wrong = [];
  const bad = (what, elements) => { for (const e of elements) wrong.push(what + ': ' + e.outerHTML.slice(0, 120)); };
  const all = query => [...document.querySelectorAll(query)];
  bad('image without alt text', all('img').filter(e => !e.alt.trim()));
  const says = (e, attribute) => e.getAttribute(attribute);
  bad('figure without a name', all('svg').filter(e => says(e, 'role') !== 'img' || !says(e, 'aria-label')));
  bad('table without caption', all('table').filter(e => !e.caption || !e.caption.textContent.trim()));
  bad('heading without scope', all('th').filter(e => !['col', 'row'].includes(e.scope)));
  const columns = row => row.closest('table').tHead.rows[0].cells.length;
  bad('row that does not fill its table', all('tbody tr, tfoot tr').filter(e => e.cells.length !== columns(e)));
  const region = e => e.closest('[role=region][tabindex="0"]');
  bad('table outside a region that scrolls', all('table').filter(e => !region(e) || !says(region(e), 'aria-label')));
  bad('field without label', all('input').filter(e => !e.labels.length || !e.labels[0].textContent.trim()));
  bad('button without text', all('button').filter(e => !e.textContent.trim()));
  bad('link that leads nowhere', all('a[href^="#"]').filter(e => !document.getElementById(says(e, 'href').slice(1))));
  bad('link without text', all('a').filter(e => !e.textContent.trim()));
  const ids = all('[id]').map(e => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push('id twice: ' + id);
  let level = 0;
  for (const e of all('h1, h2, h3, h4, h5, h6')) {
    const next = Number(e.tagName[1]);
    if (next > level + 1) wrong.push('heading skips a level: ' + e.outerHTML);
    level = next;
  }
  if (all('h1').length !== 1) wrong.push('not one h1');
  if (all('main').length !== 1) wrong.push('not one main');
  if (!document.documentElement.lang) wrong.push('no language');
  return wrong;
})()`

// Check checks that the page is accessible in windows of these widths, in CSS pixels.
func (p *Page) Check(widths ...int64) {
	p.t.Helper()
	for _, width := range widths {
		p.Size(width, 844)
		for _, wrong := range Eval[[]string](p, accessible) {
			p.t.Errorf("%d pixels wide: %s", width, wrong)
		}
		if wide := Eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
			p.t.Errorf("the page is %d pixels wide on a screen of %d", wide, width)
		}
	}
}

// Column returns the texts of a column of the table under a query, row by row as shown.
func (p *Page) Column(table string, i int) []string {
	p.t.Helper()
	return Eval[[]string](p, fmt.Sprintf(`
		[...document.querySelector(%q).tBodies[0].rows].filter(r => !r.hidden).map(r => {
			const c = r.cells[%d].cloneNode(true);
			c.querySelectorAll('sup').forEach(e => e.remove());
			return c.textContent.trim();
		})`, table, i))
}

// Broken lists words of at most so many letters that are broken over two lines.
func (p *Page) Broken(most int) []string {
	return Eval[[]string](p, fmt.Sprintf(`(() => { const found = new Set(), range = document.createRange();
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (texts.nextNode()) {
			if (!texts.currentNode.parentElement.checkVisibility()) continue;
			for (const word of texts.currentNode.data.matchAll(/[\p{L}\p{N}_.,:;()[\]%%]+/gu)) {
				if (word[0].length > %d) continue;
				range.setStart(texts.currentNode, word.index);
				range.setEnd(texts.currentNode, word.index + word[0].length);
				const lines = [...range.getClientRects()].map(r => Math.round(r.bottom));
				if (Math.max(...lines) - Math.min(...lines) > 8) found.add(word[0]);
			} }
		return [...found]; })()`, most))
}

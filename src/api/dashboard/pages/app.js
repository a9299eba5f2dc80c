/** The frame of the dashboard: signing in, navigation, and the calls that were made. */

import { call, calls, session } from './api.js'
import { updateLights } from './lights.js'
import { pages } from './pages.js'
import { CallMade, Empty, Field, html, Page, Problem, render, useEffect, useRef, useState, useStore } from './ui.js'

/** Interval at which a visible page renews its session (ms). */
const STAYS = 300_000
/** Interval at which the lights in the title are updated, also in a background tab (ms). */
const LIGHTS = 30_000
/** A tab that was in the background for longer looks no more, so that its session can end. Milliseconds. */
const LONGEST_UNSEEN = 3_600_000

/** Parts of the address behind `#/`: the page, what follows its name, and the query. */
function placeOf() {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2)
  const [id = '', ...rest] = path.split('/').map(decodeURIComponent)
  return { id: id === '' ? (pages[0]?.id ?? '') : id, path: rest, query: new URLSearchParams(query) }
}

function App() {
  const signedIn = useStore(session)
  const [problem, set] = useState(/** @type {unknown} */ (undefined))
  useEffect(() => {
    call('GET', '/session').then(
      (found) => session.set(found),
      (error) => {
        session.set(null)
        if (error.status !== 401) set(error)
      }
    )
  }, [])
  if (signedIn === undefined) return html`<p class="wait" role="status">Loading …</p>`
  return signedIn === null ? html`<${SignIn} before=${problem} />` : html`<${Frame} signedIn=${signedIn} />`
}

/** @param {{ before: unknown }} props */
function SignIn({ before }) {
  const [key, setKey] = useState('')
  const [error, setError] = useState(before)
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    document.title = 'Sign in · Sluice'
  }, [])
  const enter = async (/** @type {Event} */ event) => {
    event.preventDefault()
    setBusy(true)
    try {
      const found = await call('POST', '/session', { key }, { secret: true })
      calls.set([])
      session.set(found)
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  return html`<main class="sign-in">
    <h1>Sluice</h1>
    <form onSubmit=${enter}>
      <${Field} label="API key" hint="Used once to start a session that expires automatically. You have the permissions of this key's owner.">
        <input
          type="password"
          name="key"
          autocomplete="current-password"
          required
          autofocus
          value=${key}
          onInput=${(/** @type {any} */ event) => setKey(event.target.value)}
        />
      <//>
      <button type="submit" class="primary" disabled=${busy}>${busy ? 'Signing in …' : 'Sign in'}</button>
      <${Problem} error=${error} />
    </form>
    <p class="small">
      No key? Create one with <code>sluice api-key create</code>; the first start prints one, too. API documentation:${' '}
      <a href="docs">docs</a>.
    </p>
  </main>`
}

/** @param {{ signedIn: import('./api.js').Session }} props */
function Frame({ signedIn }) {
  const [place, setPlace] = useState(placeOf)
  const main = useRef(/** @type {HTMLElement | null} */ (null))
  useEffect(() => {
    const move = () => setPlace(placeOf())
    addEventListener('hashchange', move)
    // Effects run after the first paint, and by then another page may have been asked for.
    move()
    return () => removeEventListener('hashchange', move)
  }, [])
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) void call('GET', '/session').catch(() => undefined)
    }, STAYS)
    return () => clearInterval(timer)
  }, [])
  useEffect(() => {
    let seen = Date.now()
    const look = () => {
      if (!document.hidden) seen = Date.now()
      if (Date.now() - seen < LONGEST_UNSEEN) void updateLights().catch(() => undefined)
    }
    look()
    const timer = setInterval(look, LIGHTS)
    return () => clearInterval(timer)
  }, [])
  const page = pages.find(({ id }) => id === place.id)
  const first = useRef(true)
  useEffect(() => {
    // A reader of the screen hears which page is open now, as after a load.
    if (!first.current) main.current?.querySelector('h1')?.focus()
    first.current = false
  }, [place.id])
  const leave = async () => {
    await call('DELETE', '/session').catch(() => undefined)
    session.set(null)
  }
  const { principal } = signedIn
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault()
      main.current?.focus()
    }}>Skip to the page</a>
    <header class="bar">
      <a class="name" href="#/">Sluice</a>
      <${Menu} current=${place.id} title=${page?.title} />
      <div class="who">
        <span title=${principal.id}>${principal.subject}${principal.role === principal.subject ? '' : ` (${principal.role})`}</span>
        <button type="button" title=${`Signed in as ${principal.subject}`} onClick=${leave}>Sign out</button>
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      ${
        page === undefined
          ? html`<${Page} title="Not found"><${Empty} title="This page does not exist.">Choose a page above.<//><//>`
          : html`<${Loaded} key=${page.id} page=${page} path=${place.path} query=${place.query} />`
      }
    </main>
    <${Footer} />
  `
}

/**
 * The pages: a bar, and in a narrow window a button that opens a list.
 * @param {{ current: string, title: string | undefined }} props
 */
function Menu({ current, title = 'Pages' }) {
  const [isOpen, open] = useState(false)
  const nav = useRef(/** @type {HTMLElement | null} */ (null))
  useEffect(() => open(false), [current])
  useEffect(() => {
    if (!isOpen) return undefined
    const leave = (/** @type {Event} */ event) => {
      if (!nav.current?.contains(/** @type {Node} */ (event.target))) open(false)
    }
    addEventListener('pointerdown', leave)
    addEventListener('focusin', leave)
    return () => {
      removeEventListener('pointerdown', leave)
      removeEventListener('focusin', leave)
    }
  }, [isOpen])
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Escape' || !isOpen) return
    open(false)
    nav.current?.querySelector('button')?.focus()
  }
  return html`<nav aria-label="Pages" ref=${nav} onKeyDown=${onKey}>
    <button type="button" class="menu" aria-expanded=${isOpen ? 'true' : 'false'} aria-controls="pages" onClick=${() => open(!isOpen)}>
      <span aria-hidden="true">☰</span> ${title}
    </button>
    <div id="pages" class=${isOpen ? 'open' : ''}>
      ${pages.map(
        ({ id, title: name }) =>
          html`<a key=${id} href=${`#/${id}`} aria-current=${id === current ? 'page' : undefined} onClick=${() => open(false)}>${name}</a>`
      )}
    </div>
  </nav>`
}

/** @param {{ page: (typeof pages)[number], path: string[], query: URLSearchParams }} props */
function Loaded({ page, path, query }) {
  const [state, set] = useState(
    /** @type {{ Content: any, error: unknown }} */ ({ Content: undefined, error: undefined })
  )
  useEffect(() => {
    page.load().then(
      ({ default: Content }) => set({ Content, error: undefined }),
      (error) => set({ Content: undefined, error })
    )
  }, [page])
  if (state.error !== undefined) return html`<${Page} title=${page.title}><${Problem} error=${state.error} /><//>`
  if (state.Content === undefined) return html`<p class="wait" role="status">Loading …</p>`
  return html`<${state.Content} path=${path} query=${query} />`
}

function Footer() {
  const made = useStore(calls)
  return html`<footer>
    <details>
      <summary>API calls (${made.length})</summary>
      ${
        made.length === 0
          ? html`<p>None yet. Each change that you make in the dashboard is listed here as an API call that a script can repeat.</p>`
          : html`<ul class="calls">
            ${made.map((one) => html`<li key=${one.number}><${CallMade} made=${one} /></li>`)}
          </ul>`
      }
    </details>
    <a href="docs">API</a>
  </footer>`
}

const root = document.getElementById('app')
if (root !== null) render(html`<${App} />`, root)

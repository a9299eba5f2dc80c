/** The map of what serves: listeners, edges, routes, modules and backends, with what goes through them. */

import { call } from './api.js'
import { EdgeRoutes, IpRules } from './record-lists.js'
import { Badge, Empty, Field, html, Page, Problem, useLoad, useState, When } from './ui.js'

const EVERY = 2_000
const DAY = 86_400_000
/** A certificate that ends sooner is worth a look. Days. */
const SOON = 21
const STATES = /** @type {Record<string, string>} */ ({ up: 'good', down: 'bad', unchecked: '' })

/** The page. */
export default function RoutesPage() {
  const { data, error } = useLoad(() => call('GET', '/map'), [], { every: EVERY })
  const [wanted, want] = useState('')
  const word = wanted.toLowerCase()
  const meant = (/** @type {any} */ edge) => word === '' || JSON.stringify(edge).toLowerCase().includes(word)
  const edges = (data?.edges ?? []).filter(meant)
  const tcp = (data?.tcp_edges ?? []).filter(meant)
  const none = data !== undefined && data.edges.length + data.tcp_edges.length === 0
  return html`<${Page} title="Routes" lead="Listeners, hosts, routes and backends, with their traffic of the last minute.">
    <${Problem} error=${error} />
    ${data === undefined ? (error === undefined ? html`<p class="wait" role="status">Loading …</p>` : null) : html`<${Listeners} listeners=${data.listeners} />`}
    ${
      none
        ? html`<${Empty} title="No route leads anywhere yet" command="npm start -- --upstream http://127.0.0.1:3000">
            Set an upstream, write a site file, or create an edge with <code>POST /edges/https</code>.
          <//>`
        : html`<div class="filters"><${Field} label="Find"><input type="search" placeholder="host, path, backend" value=${wanted} onInput=${(/** @type {any} */ event) => want(event.target.value)} /><//></div>`
    }
    ${data?.omitted > 0 ? html`<p class="note">${data.omitted} more ${data.omitted === 1 ? 'edge' : 'edges'} not shown.</p>` : null}
    ${edges.map((/** @type {any} */ edge) => html`<${Edge} key=${edge.id} edge=${edge} />`)}
    ${tcp.map((/** @type {any} */ edge) => html`<${TcpEdge} key=${edge.id} edge=${edge} />`)}
    ${!none && data !== undefined && edges.length + tcp.length === 0 ? html`<p role="status">Nothing here has “${wanted}” in it.</p>` : null}
    <${EdgeRoutes} />
    <${IpRules} />
  <//>`
}

/** @param {{ listeners: readonly any[] }} props */
function Listeners({ listeners }) {
  return html`<section class="panel" aria-label="Listeners">
    <h2>Listeners</h2>
    <ul class="row">
      ${listeners.map(
        ({ key, host, port, tls, name }) =>
          html`<li key=${key}><code>${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}</code> <span class="small">${name}</span></li>`
      )}
    </ul>
  </section>`
}

/** @param {{ edge: any }} props */
function Edge({ edge: { name, hosts, every_host: every, protocol, rates, routes } }) {
  const title = every
    ? 'Every other host'
    : hosts.map((/** @type {any} */ { host, port }) => `${host}:${port}`).join(', ')
  const certificates = new Map(
    hosts.flatMap((/** @type {any} */ { certificate }) => (certificate === null ? [] : [[certificate.id, certificate]]))
  )
  const without =
    protocol === 'https' && !every && hosts.some((/** @type {any} */ { certificate }) => certificate === null)
  return html`<section class="panel edge" aria-label=${title}>
    <h2>${title}</h2>
    <p class="row">
      <${Badge}>${protocol}<//> <${Rates} rates=${rates} place=${`traffic?site=${encodeURIComponent(name)}`} />
      ${[...certificates.values()].map((one) => html`<${Certificate} certificate=${one} />`)}
      ${without ? html`<${Badge} title="TLS clients cannot connect to this name">no certificate<//>` : null}
    </p>
    ${routes.length === 0 ? html`<p class="small">No route: every request gets 404.</p>` : null}
    <ul class="tree">
      ${routes.map((/** @type {any} */ route) => html`<${Route} key=${route.id} route=${route} />`)}
    </ul>
  </section>`
}

/** @param {{ edge: any }} props */
function TcpEdge({ edge: { protocol, ports, modules, policies, rates, backend } }) {
  const title = ports.map((/** @type {any} */ { host, port }) => `${host === '' ? '' : `${host}:`}${port}`).join(', ')
  return html`<section class="panel edge" aria-label=${`${protocol.toUpperCase()} ${title}`}>
    <h2>${title}</h2>
    <p class="row"><${Badge}>${protocol}<//> <${Rates} rates=${rates} what="connections" /> <${Modules} modules=${modules} policies=${policies} /></p>
    <ul class="tree"><li><${Backend} backend=${backend} /></li></ul>
  </section>`
}

/** @param {{ route: any }} props */
function Route({ route: { name, match, path, modules, policies, rates, backend } }) {
  return html`<li>
    <p class="row">
      <code>${path}${match === 'prefix' ? ' …' : ''}</code> <${Rates} rates=${rates} place=${`traffic?route=${encodeURIComponent(name)}`} />
      <${Modules} modules=${modules} policies=${policies} />
    </p>
    <ul class="tree"><li><${Backend} backend=${backend} /></li></ul>
  </li>`
}

/**
 * The modules of a route or TCP edge; its policies are links, in the order in which they run.
 * @param {{ modules: readonly string[], policies: readonly any[] }} props
 */
function Modules({ modules, policies }) {
  return html`${policies.map(
    ({ owner, source }) =>
      html`<a class="badge info" href=${`#/policies/${encodeURIComponent(owner)}`} title=${source}>traffic_policy</a> `
  )}
  ${modules
    .filter((name) => name !== 'backend' && name !== 'traffic_policy')
    .map((name) => html`<${Badge}>${name}<//> `)}`
}

/** @param {{ backend: any }} props */
function Backend({ backend }) {
  if (backend === null) return html`<span class="small">no backend</span>`
  const { name, form, to, servers, members } = backend
  return html`<p class="row">
      <span>→ ${to === null ? form : html`<code>${to}</code>`}</span> ${name === to ? null : html`<span class="small">${name}</span>`}
      ${servers.map((/** @type {any} */ one) => html`<${Server} server=${one} alone=${servers.length === 1} />`)}
      ${form === 'tunnels' && servers.length === 0 ? html`<${Badge} tone="bad">no agent<//>` : null}
    </p>
    ${
      members.length === 0
        ? null
        : html`<ul class="tree">
            ${members.map((/** @type {any} */ one) => html`<li>${one.weight === null ? null : html`<span class="small">weight ${one.weight}</span>`}<${Backend} backend=${one.backend} /></li>`)}
          </ul>`
    }`
}

/**
 * The state of a server; of one that is down also why and since when.
 * @param {{ server: any, alone: boolean }} props
 */
function Server({ server: { server, status, reason, since }, alone }) {
  return html`<${Badge} tone=${STATES[status] ?? 'warn'} title=${reason ?? ''}>${alone ? '' : `${server} `}${status}<//>${
    status === 'down' ? html` <span class="small">${reason} since <${When} at=${since} /></span>` : null
  } `
}

/**
 * Number of requests in the last minute, with a link to them if there is one.
 * @param {{ rates: any, place?: string, what?: string }} props
 */
function Rates({ rates: { requests, failed, refused }, place, what = 'requests' }) {
  const text = `${requests} ${what} a minute`
  const share = (/** @type {number} */ count) => `${requests === 0 ? 0 : Math.round((100 * count) / requests)} %`
  return html`${place === undefined ? html`<span>${text}</span>` : html`<a href=${`#/${place}`}>${text}</a>`}
    ${failed > 0 ? html` <${Badge} tone="bad">${failed} failed (${share(failed)})<//>` : null}
    ${refused > 0 ? html` <${Badge} tone="warn">${refused} refused (${share(refused)})<//>` : null}`
}

/** @param {{ certificate: any }} props */
function Certificate({ certificate: { not_after: until } }) {
  const days = Math.floor((Date.parse(until) - Date.now()) / DAY)
  return html`<${Badge} tone=${days < 0 ? 'bad' : days < SOON ? 'warn' : 'good'}>certificate: ${days < 0 ? 'ended' : `${days} days`}<//> <span class="small"><${When} at=${until} /></span>`
}

/** One exchange: why it was decided so, what went to and fro, and what can be done with it. */

import { call } from './api.js'
import { EditReplay, MakeTest } from './exchange-actions.js'
import { curlOfExchange, missingOf, pairsOf } from './exchange-text.js'
import { decisionSentence, Explanation, ownersOf } from './explanation.js'
import { FirewallMatches } from './firewall-matches.js'
import { keptExchange } from './live-exchanges.js'
import { decidedOf, imagined, untestable } from './test-case.js'
import {
  Action,
  Badge,
  Button,
  bytesText,
  copyText,
  durationText,
  Empty,
  Facts,
  html,
  Page,
  Problem,
  refusalOf,
  toneOf,
  useEffect,
  useLoad,
  useState,
  When
} from './ui.js'

/** @param {{ id: string, back: string }} props */
export default function ExchangePage({ id, back }) {
  const { data, error } = useLoad(() => load(id), [id])
  const shown = data !== undefined
  useEffect(() => {
    if (shown) document.querySelector('h1')?.focus()
  }, [shown])
  const link = html`<a href=${`#/${back}`}>All exchanges</a>`
  if (error !== undefined) {
    const gone = /** @type {any} */ (error).status === 404
    return html`<${Page} title="Exchange" actions=${link}>
      ${
        gone
          ? html`<${Empty} title="This request is no longer recorded">
              The recorder keeps the newest ones in memory until the process ends; <code>recorder.memory</code> says how many fit.
            <//>`
          : html`<${Problem} error=${error} />`
      }
    <//>`
  }
  if (data === undefined) return html`<p class="wait" role="status">Loading …</p>`
  return html`<${Shown} exchange=${data.exchange} gone=${data.gone} link=${link} back=${back} />`
}

/**
 * The exchange as the process has it; where it has forgotten it, as this page still has it.
 * @param {string} id
 */
async function load(id) {
  try {
    return { exchange: await call('GET', `/exchanges/${encodeURIComponent(id)}`), gone: false }
  } catch (error) {
    const kept = /** @type {any} */ (error).status === 404 ? keptExchange(id) : undefined
    if (kept === undefined) throw error
    return { exchange: kept, gone: true }
  }
}

/** @param {{ exchange: any, gone: boolean, link: any, back: string }} props */
function Shown({ exchange, gone, link, back }) {
  const {
    method,
    url,
    decision,
    decided,
    client_ip: client,
    listener,
    site,
    route_name: route,
    revision,
    at,
    connection
  } = exchange
  const [dialog, open] = useState(/** @type {'edit' | 'test' | undefined} */ (undefined))
  const [replays, setReplays] = useState(/** @type {readonly any[]} */ ([]))
  const reason = refusalOf('exchanges') ?? (gone ? 'The process no longer has this request.' : undefined)
  const replay = async () => {
    const made = await call('POST', `/exchanges/${encodeURIComponent(exchange.id)}/replay`)
    setReplays((before) => [made, ...before])
  }
  const testReason = refusalOf('explain') ?? untestable(exchange)
  return html`<${Page} title=${`${method} ${pathOf(url)}`} actions=${link}>
    <p>
      <${Badge} tone=${decision.status === 0 ? 'bad' : toneOf(decision.status)}>${decided === 'forwarded' ? decision.status : decided}<//>${' '}
      ${exchange.explanation === null ? decisionSentence(decision) : ''} <${When} at=${at} /> from ${client}, took ${durationText(exchange.duration_ms)}
    </p>
    ${gone ? html`<p class="note">The process no longer has this request; this page still shows it.</p>` : null}
    ${
      exchange.replay_of === null
        ? null
        : html`<p class="note">A replay of <a href=${placeOf(exchange.replay_of, back)}>${exchange.replay_of}</a>.</p>`
    }
    <div class="actions">
      <${Action} label="Replay" run=${replay} reason=${reason} done="Sent again." />
      <${Button} label="Edit and replay" reason=${reason} onClick=${() => open('edit')} />
      <${CopyCurl} exchange=${exchange} />
      <${Button} label="Make a test" reason=${testReason} onClick=${() => open('test')} />
    </div>
    <${Replays} replays=${replays} before=${exchange} back=${back} />
    ${
      dialog === 'edit'
        ? html`<${EditReplay}
            exchange=${exchange}
            onClose=${() => open(undefined)}
            onReplayed=${(/** @type {any} */ made) => setReplays((before) => [made, ...before])}
          />`
        : dialog === 'test'
          ? html`<${MakeTest} exchange=${exchange} onClose=${() => open(undefined)} />`
          : null
    }
    <section class="panel" aria-label="Why">
      <h2>Why</h2>
      ${exchange.explanation === null ? html`<${FirewallMatches} results=${exchange.waf ?? []} />` : null}
      <${Why} exchange=${exchange} />
    </section>
    ${exchange.shadow === null ? null : html`<${Shadow} exchange=${exchange} />`}
    <div class="columns">
      <${Message} title="Request" message=${exchange.request} bytes=${exchange.bytes_in} />
      <${Message} title="Answer" message=${exchange.response} bytes=${exchange.bytes_out} />
      ${exchange.upstream === null ? null : html`<${Message} title="Request to the upstream" message=${exchange.upstream} />`}
    </div>
    <section class="panel">
      <h2>Timing and tries</h2>
      <${Timing} exchange=${exchange} />
    </section>
    <section class="panel">
      <h2>Circumstances</h2>
      <${Facts}
        entries=${[
          ['URL', html`<code>${url}</code>`],
          ['Began', html`<${When} at=${at} />`],
          [
            'Client',
            html`<a href=${`#/traffic?client=${encodeURIComponent(client)}`}>${client}</a> port ${exchange.client.port}`
          ],
          ['HTTP', exchange.http_version],
          [
            'TLS',
            connection.tls === null
              ? 'none'
              : `${connection.tls.version}, ${connection.tls.cipher}, ${connection.tls.server_name ?? 'no name'}`
          ],
          [
            'Connection',
            `${connection.id}, ${connection.client.ip}:${connection.client.port} to ${connection.server.ip}:${connection.server.port}`
          ],
          ['Listener', listener],
          ['Site', site === null ? 'none' : html`<a href=${`#/traffic?site=${encodeURIComponent(site)}`}>${site}</a>`],
          [
            'Route',
            route === null ? 'none' : html`<a href=${`#/traffic?route=${encodeURIComponent(route)}`}>${route}</a>`
          ],
          ['Backend', exchange.upstream?.name],
          ['Revision', String(revision)],
          [
            'Logged by policies',
            exchange.logs.length === 0 ? undefined : html`<pre>${JSON.stringify(exchange.logs, null, 2)}</pre>`
          ],
          ['Id', html`<code>${exchange.id}</code>`]
        ]}
      />
    </section>
  <//>`
}

/** @param {string} url */
function pathOf(url) {
  if (!URL.canParse(url)) return url
  const { host, pathname, search } = new URL(url)
  return `${host}${pathname}${search}`
}

/**
 * @param {string} id
 * @param {string} back
 */
function placeOf(id, back) {
  return `#/${back.replace(/^traffic/, `traffic/${id}`)}`
}

/** @param {{ exchange: any }} props */
function CopyCurl({ exchange }) {
  const [done, set] = useState(false)
  const missing = missingOf(exchange)
  const copy = async () => {
    await copyText(curlOfExchange(exchange))
    set(true)
  }
  return html`<span class="action">
    <button type="button" onClick=${copy}>Copy as curl</button>
    <span role="status" class="small">${done ? ` Copied.${missing === undefined ? '' : ` Not all of it is known: ${missing}`}` : ''}</span>
  </span>`
}

/** What came of requests that were sent again. @param {{ replays: readonly any[], before: any, back: string }} props */
function Replays({ replays, before, back }) {
  if (replays.length === 0) return null
  return html`<section class="panel" aria-label="Replays">
    <h2>Sent again</h2>
    <ol class="replays" role="status">
      ${replays.map(
        (made) => html`<li key=${made.id}>
          <${Badge} tone=${toneOf(made.decision.status)}>${made.decided === 'forwarded' ? made.decision.status : made.decided}<//>${' '}
          <a href=${placeOf(made.id, back)}>${made.method} ${pathOf(made.url)}</a> in ${durationText(made.duration_ms)},${' '}
          ${made.decided === before.decided ? 'decided as before' : `before: ${before.decided}`}
        </li>`
      )}
    </ol>
  </section>`
}

/** Its explanation; where it has none, that of the same request now. @param {{ exchange: any }} props */
function Why({ exchange }) {
  const [asked, setAsked] = useState(/** @type {any} */ (undefined))
  const { explanation, decision } = exchange
  const { by } = decision
  if (explanation !== null) return html`<${WithPolicies} explanation=${explanation} />`
  const ask = async () => {
    const { explanations } = await call('POST', '/explain', imagined(exchange))
    setAsked(explanations[0])
  }
  const decided = asked === undefined ? '' : decidedOf(asked.decision)
  return html`${
    by === null
      ? null
      : html`<p>Decided by <code>${by.action}</code> of rule <strong>${by.rule}</strong> in <code>${by.phase}</code>.</p>`
  }
    <p>
      It was not explained when it came. The request can be decided once more, by what serves and is counted now; nothing is sent or
      counted.
    </p>
    <div class="actions"><${Action} label="Explain it now" run=${ask} reason=${refusalOf('explain')} /></div>
    ${
      asked === undefined
        ? null
        : html`<p class="note">
              ${
                decided === exchange.decided
                  ? 'Same decision as recorded.'
                  : `Different decision: now ${decided}, recorded ${exchange.decided}.`
              }
            </p>
            <${WithPolicies} explanation=${asked} />`
    }`
}

/** An explanation with the texts of the policies that ran. @param {{ explanation: any }} props */
function WithPolicies({ explanation }) {
  const { data } = useLoad(() => policiesOf(explanation), [explanation])
  return html`<${Explanation} explanation=${explanation} policyText=${data} />`
}

/**
 * The texts that serve now, by their owners, each with what is to be known of it.
 * @param {any} explanation
 */
async function policiesOf(explanation) {
  const then = new Map(explanation.policies.map((/** @type {any} */ one) => [one.owner, one]))
  const found = await Promise.all(
    ownersOf(explanation).map(async (owner) => {
      try {
        const { text, source, digest } = await call('GET', `/explain/policies/${encodeURIComponent(owner)}`)
        const changed = then.get(owner)?.digest !== digest
        const note = changed ? 'The policy has changed since this request.' : undefined
        return [owner, { text, source, changed, note }]
      } catch (error) {
        if (/** @type {any} */ (error).status !== 404) throw error
        return [
          owner,
          { text: '', source: then.get(owner)?.source, note: 'This policy is no longer active.', changed: true }
        ]
      }
    })
  )
  return Object.fromEntries(found)
}

/** How a shadow decides it otherwise. @param {{ exchange: any }} props */
function Shadow({ exchange }) {
  const { shadow, decided } = exchange
  const { decision, differs, explanation, id } = shadow
  const by = decision.by
  return html`<section class="panel" aria-label="Shadow">
    <h2>Shadow</h2>
    <p>
      The candidate of shadow <code>${id}</code> decides it otherwise: <strong>${decision.decision}</strong>
      ${decision.status === null ? '' : ` ${decision.status}`} ${decision.code ?? ''}
      ${by === null ? '' : html` by <code>${by.action}</code> of rule <strong>${by.rule}</strong>`}; what serves: <strong>${decided}</strong>.
      Different: ${differs.join(', ')}.
    </p>
    ${explanation === null ? null : html`<details><summary>Decision of the candidate policy</summary><${Explanation} explanation=${explanation} /></details>`}
  </section>`
}

/** @param {{ title: string, message: any, bytes?: number }} props */
function Message({ title, message, bytes }) {
  if (message === null) return html`<section class="panel"><h2>${title}</h2><p>None was sent.</p></section>`
  const { status, method, uri, headers, body } = message
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    ${status === undefined ? null : html`<p><${Badge} tone=${toneOf(status)}>${status}<//></p>`}
    ${uri === undefined ? null : html`<p><code>${method} ${uri}</code></p>`}
    <details open=${headers.length <= 40}>
      <summary>${headers.length / 2} header fields</summary>
      <dl class="facts headers">
        ${pairsOf(headers).map(([name, value]) => html`<div><dt><code>${name}</code></dt><dd><code>${value}</code></dd></div>`)}
      </dl>
    </details>
    ${body === undefined ? null : html`<${Body} body=${body} bytes=${bytes} />`}
  </section>`
}

/** @param {{ body: any, bytes: number | undefined }} props */
function Body({ body, bytes }) {
  if (body === null)
    return html`<p class="small">
      No body is recorded; it took ${bytesText(bytes)} in all. The option <code>recorder.bodies</code> says how much of bodies is kept.
    </p>`
  const { text, base64, whole } = body
  return html`<h3>Body <span class="small">${bytesText(body.bytes)}${whole ? '' : ', cut off here'}${base64 === undefined ? '' : ', base64'}</span></h3>
    <pre class="body" tabindex="0">${text === undefined ? base64 : pretty(text)}</pre>`
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** @param {{ exchange: any }} props */
function Timing({ exchange }) {
  const { duration_ms: all, upstream_ms: upstream, tries } = exchange
  const share = upstream === null || all === 0 ? 0 : Math.min(1, upstream / all)
  const summary =
    upstream === null
      ? `${durationText(all)} in all, without an upstream.`
      : `${durationText(all)} in all: ${durationText(upstream)} until the upstream answered, ${durationText(Math.max(0, all - upstream))} otherwise.`
  return html`<p>${summary}</p>
    <svg class="bar-of-time" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${summary}>
      <rect class="own" x="0" y="0" width="100" height="6" />
      <rect class="upstream" x="0" y="0" width=${100 * share} height="6" />
    </svg>
    ${
      tries.length === 0
        ? html`<p class="small">No upstream was tried.</p>`
        : html`<div class="table-box" role="region" aria-label="Tries" tabindex="0">
            <table>
              <caption class="hidden">Tries to reach an upstream</caption>
              <thead>
                <tr><th scope="col">Try</th><th scope="col">Backend</th><th scope="col">Server</th><th scope="col">Result</th><th scope="col" class="numeric">First byte</th></tr>
              </thead>
              <tbody>
                ${tries.map(
                  (/** @type {any} */ one, /** @type {number} */ at) => html`<tr>
                    <th scope="row">${at + 1}</th>
                    <td>${one.backend}</td>
                    <td>${one.server ?? '–'}</td>
                    <td>${one.status === undefined ? html`<${Badge} tone="bad">${one.failure ?? one.reason ?? one.code ?? 'failed'}<//>` : html`<${Badge} tone=${toneOf(one.status)}>${one.status}<//>`}</td>
                    <td class="numeric">${durationText(one.first_byte_ms)}</td>
                  </tr>`
                )}
              </tbody>
            </table>
          </div>`
    }`
}

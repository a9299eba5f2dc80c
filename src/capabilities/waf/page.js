/** Firewall: which rules match recorded requests, how likely the matches are false positives, and exclusions for them. */

import { call } from 'dashboard/api.js'
import {
  Action,
  Badge,
  Copyable,
  countText,
  Empty,
  Field,
  html,
  Page,
  Problem,
  refusalOf,
  Table,
  useLoad,
  useState
} from 'dashboard/ui.js'

const LIMITS = [1_000, 10_000, 100_000]
const TONES = /** @type {Record<string, string>} */ ({ likely: 'info', possible: '', unlikely: 'warn' })
const OPTION = `waf:
  rules: /etc/sluice/coreruleset`
const ACTION = `on_http_request:
  - actions:
      - type: owasp-crs-request
        config:
          enforce: false
          process_body: true`

/** @typedef {import('./answers.js').WafReport} Report */
/** @typedef {Report['findings'][number]} Finding */
/** @typedef {Report['proposals'][number]} Proposal */

/** The page. */
export default function FirewallPage() {
  const reason = refusalOf('exchanges')
  if (reason !== undefined) return html`<${Page} title="Firewall"><p class="note">${reason}</p><//>`
  return html`<${Report} />`
}

function Report() {
  const [limit, setLimit] = useState(LIMITS[0])
  const [propose, setPropose] = useState('likely')
  const [typed, type] = useState('')
  const [asked, ask] = useState({ trusted: '', times: 0 })
  const [proved, prove] = useState(/** @type {Report | undefined} */ (undefined))
  const trusted = asked.trusted.split(/[\s,]+/).filter((one) => one !== '')
  const request = { limit, propose, trusted }
  const load = async () => {
    prove(undefined)
    return await call('POST', '/waf/report', { ...request, prove: false }, { quiet: true })
  }
  const { data, error } = useLoad(load, [limit, propose, asked])
  const report = /** @type {Report | undefined} */ (proved ?? data)
  const lead = 'Rules of the firewall that match recorded requests, likely false positives first.'
  if (report?.rules === null)
    return html`<${Page} title="Firewall" lead=${lead}>
      <${Empty} title="No rules" command=${OPTION}>Unpack a release of the OWASP Core Rule Set 4 and name its folder in the options:<//>
    <//>`
  return html`<${Page} title="Firewall" lead=${lead}>
    <form
      class="filters"
      onSubmit=${(/** @type {any} */ event) => {
        event.preventDefault()
        ask({ trusted: typed, times: asked.times + 1 })
      }}
    >
      <${Field} label="Requests">
        <select value=${limit} onChange=${(/** @type {any} */ event) => setLimit(Number(event.target.value))}>
          ${LIMITS.map((one) => html`<option value=${one}>newest ${one}</option>`)}
        </select>
      <//>
      <${Field} label="Propose for">
        <select value=${propose} onChange=${(/** @type {any} */ event) => setPropose(event.target.value)}>
          <option value="likely">likely false positives</option>
          <option value="possible">possible ones, too</option>
        </select>
      <//>
      <${Field} label="Trusted networks">
        <input value=${typed} maxlength="500" placeholder="10.0.0.0/8" spellcheck=${false} onInput=${(/** @type {any} */ event) => type(event.target.value)} />
      <//>
      <button type="submit" class="primary">Report</button>
    </form>
    <${Problem} error=${error} />
    ${
      report === undefined
        ? error === undefined && html`<p class="wait" role="status">Loading …</p>`
        : html`<${Summary} report=${report} /><${Findings} report=${report} />
            <${Proposals} report=${report} prove=${async () => prove(await call('POST', '/waf/report', request))} />`
    }
  <//>`
}

/** @param {{ report: Report }} props */
function Summary({ report }) {
  const { rules, exchanges, clients, matched, denied, not_judged: unknown } = report
  return html`<p>
      ${countText(exchanges, 'request')} of ${countText(clients, 'client')}; rules match ${matched}, the firewall denies
      ${' '}${denied}.
    </p>
    ${
      unknown === 0
        ? null
        : html`<p class="note">
            ${countText(unknown, 'request')} cannot be decided again, such as those without a recorded body
            (<code>recorder.bodies</code>); their recorded matches count.
          </p>`
    }
    <p class="small">${rules?.name || 'Rules'}: ${countText(rules?.size ?? 0, 'rule')}, SHA-256 <code>${rules?.digest.slice(0, 12)}</code></p>`
}

/** @param {{ report: Report }} props */
function Findings({ report: { findings, omitted } }) {
  return html`<section class="panel">
    <h2>Matches</h2>
    <${Table}
      label="Matches"
      rows=${findings}
      id=${(/** @type {Finding} */ row) => [row.route, row.action, row.path, row.rule, row.variable].join(' ')}
      empty=${html`<${Empty} title="No rule matches" command=${ACTION}>The recorder keeps requests in which a rule of this action matches:<//>`}
      columns=${[
        { title: 'Rule', cell: (/** @type {Finding} */ row) => html`<code>${row.rule}</code> ${row.message}` },
        { title: 'Route', cell: (/** @type {Finding} */ row) => row.route },
        { title: 'Path', cell: (/** @type {Finding} */ row) => html`<code>${row.path}</code>` },
        {
          title: 'Variable',
          cell: (/** @type {Finding} */ row) => (row.variable === '' ? '–' : html`<code>${row.variable}</code>`)
        },
        {
          title: 'Values',
          cell: (/** @type {Finding} */ row) => row.values.map((value) => html`<div><code>${value}</code></div>`)
        },
        { title: 'Requests', numeric: true, cell: (/** @type {Finding} */ row) => row.exchanges },
        { title: 'Clients', numeric: true, cell: (/** @type {Finding} */ row) => row.clients },
        { title: 'Denied', numeric: true, cell: (/** @type {Finding} */ row) => row.denied },
        {
          title: 'False positive',
          cell: (/** @type {Finding} */ row) =>
            html`<${Badge} tone=${TONES[row.likelihood]}>${row.likelihood}<//> <span class="small">${row.reasons.join('; ')}</span>`
        }
      ]}
    />
    ${omitted === 0 ? null : html`<p class="note">${countText(omitted, 'finding')} more.</p>`}
  </section>`
}

/** @param {{ report: Report, prove: () => Promise<unknown> }} props */
function Proposals({ report: { proposals, withheld, proof, matched }, prove }) {
  if (matched === 0) return null
  return html`<section class="panel">
    <h2>Proposed exclusions</h2>
    ${
      proposals.length === 0
        ? html`<p>No match is a likely false positive. Name trusted networks, or propose for possible ones, too.</p>`
        : html`${proposals.map(
            (/** @type {Proposal} */ one) => html`<section aria-label=${`Exclusions for ${one.route}`}>
                <p>Add to the config of <code>${one.action}</code> in the policy of ${one.route}:</p>
                <${Copyable} text=${one.yaml} />
              </section>`
          )}
            <div class="actions">
              <${Action} label="Prove with recorded requests" run=${prove} done="Decided without and with the exclusions" />
            </div>`
    }
    ${withheld.map(
      (one) => html`<p class="note">
          Withheld for ${one.route}: ${countText(one.releases, 'request')} that may be an attack would pass.
        </p>
        <pre tabindex="0">${one.yaml}</pre>`
    )}
    ${
      proof === null
        ? null
        : html`<${Table}
            label="Proof"
            rows=${[{ name: 'Denied', ...proof.denied }, { name: 'Of these look like attacks', ...proof.hostile }]}
            id=${(/** @type {any} */ row) => row.name}
            columns=${[
              { title: `${proof.exchanges} requests`, cell: (/** @type {any} */ row) => row.name },
              { title: 'Without', numeric: true, cell: (/** @type {any} */ row) => row.before },
              { title: 'With exclusions', numeric: true, cell: (/** @type {any} */ row) => row.after }
            ]}
          />`
    }
  </section>`
}

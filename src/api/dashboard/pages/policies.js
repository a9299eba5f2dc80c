/** Policies: where they run, and a workbench to change one: check, try, test, compare, shadow, apply, revert. */

import { call } from './api.js'
import { Editor } from './editor.js'
import { ApplyPolicy, EditFile, PolicyDifference, PolicyHistory } from './policy-apply.js'
import { loadPlaces } from './policy-places.js'
import { PolicyShadow } from './policy-shadow.js'
import { PolicyTests, TryPolicy } from './policy-trials.js'
import { suggester } from './suggestions.js'
import {
  Badge,
  countText,
  Empty,
  html,
  Page,
  Problem,
  refusalOf,
  Table,
  Tabs,
  useEffect,
  useLoad,
  useMemo,
  useState
} from './ui.js'

/** @type {readonly any[]} */
const NO_PROBLEMS = []
/** Time without edits before the text is checked (ms). */
const REST = 300
const EXAMPLE = `on_http_request:
  - name: five a minute
    actions:
      - type: rate-limit
        config:
          name: five
          algorithm: sliding_window
          capacity: 5
          rate: 60s
          bucket_key: [conn.client_ip]
`

/** @typedef {import('./policy-places.js').Place} Place */

/**
 * The page; `#/policies/{id of a route or TCP edge}` opens one.
 * @param {{ path: string[] }} props
 */
export default function PoliciesPage({ path: [id] }) {
  const places = useLoad(loadPlaces)
  const place = places.data?.places.find((one) => one.id === id)
  if (places.data === undefined) {
    return html`<${Page} title="Policies">
      ${places.error === undefined ? html`<p class="wait" role="status">Loading …</p>` : html`<${Problem} error=${places.error} />`}
    <//>`
  }
  if (id === undefined) return html`<${Places} ...${places.data} />`
  if (place === undefined)
    return html`<${Page} title="Policies"><${Empty} title="Nothing has this id"><a href="#/policies">All policies</a><//><//>`
  return html`<${Opened} key=${place.id} place=${place} reload=${places.reload} />`
}

/**
 * The workbench, once the text of the policy is there.
 * @param {{ place: Place, reload: () => Promise<void> }} props
 */
function Opened({ place, reload }) {
  const { policy } = place
  const isElsewhere = policy !== null && policy.value === undefined
  const { data, error } = useLoad(
    () => (isElsewhere ? call('GET', `/explain/policies/${encodeURIComponent(place.id)}`) : Promise.resolve({})),
    [place.id, isElsewhere]
  )
  const title = `Policy of ${place.title}`
  if (error !== undefined) return html`<${Page} title=${title}><${Problem} error=${error} /><//>`
  if (data === undefined) return html`<${Page} title=${title}><p class="wait" role="status">Loading …</p><//>`
  const known = isElsewhere ? { ...place, policy: { ...policy, value: data.text } } : place
  return html`<${Workbench} place=${known} reload=${reload} />`
}

/** @param {{ places: readonly Place[], omitted: number }} props */
function Places({ places, omitted }) {
  return html`<${Page} title="Policies" lead="Every policy that serves, and every route and TCP edge that can have one. Open one to try or change it.">
    ${omitted > 0 ? html`<p class="note">Policies of ${countText(omitted, 'more edge')} are left out.</p>` : null}
    <${Table}
      label="Policies"
      rows=${places}
      id=${(/** @type {Place} */ row) => row.id}
      place=${(/** @type {Place} */ row) => `policies/${row.id}`}
      empty=${html`<${Empty} title="There is no route yet" command="sluice start try.yaml">
        A site file makes routes, and so does <code>POST /edges/https</code>. The policy that the options name (<code>--policy</code>) is a file: save
        it, and it serves.
      <//>`}
      columns=${[
        { title: 'Where', cell: (/** @type {Place} */ row) => row.title },
        {
          title: 'Policy',
          cell: (/** @type {Place} */ row) =>
            row.policy === null
              ? 'none'
              : html`${countText(row.policy.lines, 'line')} ${row.policy.enabled ? null : html`<${Badge} tone="warn">switched off<//>`}`
        },
        { title: 'Tests', cell: (/** @type {Place} */ row) => (row.tests === '' ? 'none' : 'yes') },
        {
          title: 'Place',
          cell: (/** @type {Place} */ row) =>
            row.fixed === undefined
              ? row.source
              : html`<code>${row.source}</code> <${Badge} title=${row.fixed}>read-only<//>`
        }
      ]}
    />
  <//>`
}

/** @param {{ place: Place, reload: () => Promise<void> }} props */
function Workbench({ place, reload }) {
  const live = place.policy?.value ?? ''
  const [text, setText] = useState(live)
  const [tests, setTests] = useState(place.tests)
  const [tab, setTab] = useState('check')
  const language = useLoad(() => call('GET', '/policies/language'))
  const checked = useCheck(text, place.layer)
  const suggest = useMemo(() => (language.data === undefined ? undefined : suggester(language.data)), [language.data])
  const reason = place.fixed ?? refusalOf(`${place.resource}.update`)
  const edit = { place, text, live, tests, reason }
  const problems = checked.problems ?? NO_PROBLEMS
  const tabs = [
    { id: 'check', title: `Check${problems.length > 0 ? ` (${problems.length})` : ''}` },
    ...(place.route === undefined ? [] : [{ id: 'try', title: 'Try' }]),
    { id: 'tests', title: 'Tests' },
    { id: 'difference', title: 'Difference' },
    ...(place.route === undefined ? [] : [{ id: 'shadow', title: 'Shadow' }]),
    ...(place.fixed === undefined
      ? [
          { id: 'apply', title: 'Apply' },
          { id: 'history', title: 'History' }
        ]
      : [{ id: 'file', title: 'Edit the file' }])
  ]
  return html`<${Page}
    title=${`Policy of ${place.title}`}
    lead=${html`<a href="#/policies">All policies</a>`}
    actions=${html`<${Badge} tone=${text === live ? '' : 'info'}>${text === live ? 'as it serves' : 'changed'}<//>
      <button type="button" disabled=${text === live} onClick=${() => setText(live)}>Discard</button>`}
  >
    ${reason === undefined ? null : html`<p class="note">Changes can be tried, tested and shadowed here, but not applied. ${reason}</p>`}
    ${live === '' && text === '' ? html`<p>No policy yet. <button type="button" onClick=${() => setText(EXAMPLE)}>Begin with a limit</button></p>` : null}
    <div class="columns">
      <div>
        <${Editor} label="Policy" value=${text} onInput=${setText} marks=${problems} suggest=${suggest} />
        <p class="small">Ctrl-Space completes; Escape closes the list, Tab then leaves the field.</p>
      </div>
      <div>
        <${Tabs} label="Workbench" tabs=${tabs} current=${tab} onChoose=${setTab}>
          ${tab === 'check' ? html`<${Checked} checked=${checked} />` : null}
          ${tab === 'try' ? html`<${TryPolicy} edit=${edit} />` : null}
          ${tab === 'tests' ? html`<${PolicyTests} edit=${edit} onTests=${setTests} suggestion=${place.example} />` : null}
          ${tab === 'difference' ? html`<${PolicyDifference} edit=${edit} />` : null}
          ${tab === 'shadow' ? html`<${PolicyShadow} edit=${edit} />` : null}
          ${tab === 'apply' ? html`<${ApplyPolicy} edit=${edit} valid=${checked.valid} reload=${reload} />` : null}
          ${tab === 'file' ? html`<${EditFile} edit=${edit} />` : null}
          ${tab === 'history' ? html`<${PolicyHistory} edit=${edit} reload=${reload} onText=${setText} />` : null}
        <//>
      </div>
    </div>
  <//>`
}

/**
 * Problems of a text, requested after a time without edits.
 * @param {string} text
 * @param {'http' | 'tcp'} layer
 */
function useCheck(text, layer) {
  const [state, set] = useState(/** @type {{ valid?: boolean, problems?: any[], error?: unknown }} */ ({}))
  useEffect(() => {
    if (text.trim() === '') {
      set({ valid: false, problems: [] })
      return undefined
    }
    const gone = new AbortController()
    const timer = setTimeout(() => {
      call('POST', '/policies/check', { text, layer }, { signal: gone.signal, quiet: true }).then(set, (error) => {
        if (!gone.signal.aborted) set({ error })
      })
    }, REST)
    return () => {
      clearTimeout(timer)
      gone.abort()
    }
  }, [text, layer])
  return state
}

/** @param {{ checked: ReturnType<typeof useCheck> }} props */
function Checked({ checked: { valid, problems, error } }) {
  if (error !== undefined) return html`<${Problem} error=${error} />`
  if (problems === undefined) return html`<p role="status">Checking …</p>`
  if (problems.length === 0) return html`<p role="status">${valid ? 'Nothing is wrong with it.' : 'It is empty.'}</p>`
  return html`<div role="status"><ul class="marks">
    ${problems.map(
      (one) => html`<li>
        <${Badge} tone=${one.severity === 'error' ? 'bad' : 'warn'}>${one.severity}<//> line ${one.line}, column ${one.column}: ${one.message} <code class="small">${one.code}</code>
      </li>`
    )}
  </ul></div>`
}

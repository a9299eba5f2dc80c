/** Policies: where they run, and a workbench to change one: check, try, test, compare, shadow, apply, revert. */

import { call } from './api.js'
import { Editor, suggester } from './editor.js'
import { ApplyPolicy, PolicyDifference, PolicyHistory } from './policy-apply.js'
import { PolicyShadow } from './policy-shadow.js'
import { PolicyTests, TryPolicy } from './policy-trials.js'
import {
  Badge,
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

/** How long an edit rests before it is checked. Milliseconds. */
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

/**
 * Where a policy runs. `path`: of the record; `route`: as /explain and /shadows name it, undefined where they cannot.
 * @typedef {{ id: string, title: string, layer: 'http' | 'tcp', path: string, resource: string, route: string | undefined, policy: { enabled: boolean, value: string } | null, tests: string, declared: { file: string, line: number } | undefined, example: string }} Place
 */

/**
 * The page; `#/policies/{id of a route or TCP edge}` opens one.
 * @param {{ path: string[] }} props
 */
export default function PoliciesPage({ path: [id] }) {
  const places = useLoad(loadPlaces)
  const place = places.data?.find((one) => one.id === id)
  if (places.data === undefined) {
    return html`<${Page} title="Policies">
      ${places.error === undefined ? html`<p class="wait" role="status">Loading …</p>` : html`<${Problem} error=${places.error} />`}
    <//>`
  }
  if (id === undefined) return html`<${Places} places=${places.data} />`
  if (place === undefined)
    return html`<${Page} title="Policies"><${Empty} title="Nothing has this id"><a href="#/policies">All policies</a><//><//>`
  return html`<${Workbench} key=${place.id} place=${place} reload=${places.reload} />`
}

/** @returns {Promise<Place[]>} */
async function loadPlaces() {
  const [https, tcp] = await Promise.all([everyOf('/edges/https', 'https_edges'), everyOf('/edges/tcp', 'tcp_edges')])
  const routes = https.flatMap((edge) =>
    edge.routes.map((/** @type {any} */ route) => ({
      id: route.id,
      title: `${edge.hostports.join(', ')} ${route.match}`,
      layer: /** @type {const} */ ('http'),
      path: `/edges/https/${edge.id}/routes/${route.id}`,
      resource: 'https_edge_route',
      route: route.id,
      policy: route.traffic_policy,
      tests: route.policy_tests ?? '',
      declared: route.declared,
      example: `http://${String(edge.hostports[0] ?? 'localhost')
        .replace(/^\*\./, 'www.')
        .replace(/:\d+$/, '')}${route.match}`
    }))
  )
  const edges = tcp.map((edge) => ({
    id: edge.id,
    title: edge.hostports.join(', '),
    layer: /** @type {const} */ ('tcp'),
    path: `/edges/tcp/${edge.id}`,
    resource: 'tcp_edge',
    route: undefined,
    policy: edge.traffic_policy,
    tests: edge.policy_tests ?? '',
    declared: edge.declared,
    example: ''
  }))
  return [...routes, ...edges]
}

/**
 * All records of a list.
 * @param {string} path
 * @param {string} member
 * @returns {Promise<any[]>}
 */
async function everyOf(path, member) {
  const rows = []
  for (let from = `${path}?limit=100`; ; ) {
    const found = await call('GET', from)
    rows.push(...found[member])
    if (found.next_page_uri === null) return rows
    from = `${path}${new URL(found.next_page_uri).search}`
  }
}

/** @param {{ places: readonly Place[] }} props */
function Places({ places }) {
  return html`<${Page} title="Policies" lead="Each route of an HTTPS edge and each TCP edge can have a traffic policy. Open one to change it.">
    <${Table}
      label="Where policies run"
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
              : html`${row.policy.value.trim().split('\n').length} lines ${row.policy.enabled ? null : html`<${Badge} tone="warn">switched off<//>`}`
        },
        { title: 'Tests', cell: (/** @type {Place} */ row) => (row.tests === '' ? 'none' : 'yes') },
        {
          title: 'Comes from',
          cell: (/** @type {Place} */ row) => (row.declared ? `${row.declared.file}:${row.declared.line}` : 'the API')
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
  const reason =
    place.declared === undefined
      ? refusalOf(`${place.resource}.update`)
      : `${place.declared.file}:${place.declared.line} declares it, and it alone can change it.`
  const edit = { place, text, live, tests, reason }
  const problems = checked.problems ?? []
  const tabs = [
    { id: 'check', title: `Check${problems.length > 0 ? ` (${problems.length})` : ''}` },
    ...(place.route === undefined ? [] : [{ id: 'try', title: 'Try' }]),
    { id: 'tests', title: 'Tests' },
    { id: 'difference', title: 'Difference' },
    ...(place.route === undefined ? [] : [{ id: 'shadow', title: 'Shadow' }]),
    { id: 'apply', title: 'Apply' },
    { id: 'history', title: 'History' }
  ]
  return html`<${Page}
    title=${`Policy of ${place.title}`}
    lead=${html`<a href="#/policies">All policies</a>`}
    actions=${html`<${Badge} tone=${text === live ? '' : 'info'}>${text === live ? 'as it serves' : 'changed'}<//>
      <button type="button" disabled=${text === live} onClick=${() => setText(live)}>Discard</button>`}
  >
    ${reason === undefined ? null : html`<p class="note">It can be tried here, but not applied: ${reason}</p>`}
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
          ${tab === 'history' ? html`<${PolicyHistory} edit=${edit} reload=${reload} onText=${setText} />` : null}
        <//>
      </div>
    </div>
  <//>`
}

/**
 * What is wrong with a text, asked for when it has rested.
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
  return html`<ul class="marks" role="status">
    ${problems.map(
      (one) => html`<li>
        <${Badge} tone=${one.severity === 'error' ? 'bad' : 'warn'}>${one.severity}<//> line ${one.line}, column ${one.column}: ${one.message} <code class="small">${one.code}</code>
      </li>`
    )}
  </ul>`
}

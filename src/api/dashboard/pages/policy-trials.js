/** Trying a policy on a request, and running its tests. */

import { call } from './api.js'
import { Editor } from './editor.js'
import { Explanation } from './explanation.js'
import { Action, Badge, Field, html, Problem, useState } from './ui.js'

/** @typedef {{ place: import('./policy-places.js').Place, text: string, live: string, tests: string, reason: string | undefined }} Edit */

/**
 * A request, and how the policy decides it. Nothing is sent or counted.
 * @param {{ edit: Edit }} props
 */
export function TryPolicy({ edit: { place, text } }) {
  const [request, set] = useState({
    method: 'GET',
    url: place.example,
    client_ip: '127.0.0.1',
    headers: '',
    body: '',
    repeat: '1',
    upstream_status: '200'
  })
  const [found, show] = useState(/** @type {any} */ (undefined))
  const field = (/** @type {keyof typeof request} */ name) => ({
    value: request[name],
    onInput: (/** @type {any} */ event) => set({ ...request, [name]: event.target.value })
  })
  const ask = async () => {
    const { headers, body, repeat, upstream_status: status, ...rest } = request
    const { explanations } = await call('POST', '/explain', {
      ...rest,
      headers: headersOf(headers),
      ...(body === '' ? {} : { body }),
      repeat: Number(repeat),
      upstream_status: Number(status),
      counters: 'empty',
      policies: [{ route: place.route, text }]
    })
    show(explanations)
  }
  const last = found?.at(-1)
  return html`<div>
    <form onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <div class="filters">
        <${Field} label="Method"><input size="7" ...${field('method')} /><//>
        <div class="wide"><${Field} label="URL"><input ...${field('url')} /><//></div>
      </div>
      <div class="filters">
        <${Field} label="Client"><input size="15" ...${field('client_ip')} /><//>
        <${Field} label="Times"><input type="number" min="1" max="1000" ...${field('repeat')} /><//>
        <${Field} label="Upstream answers"><input type="number" min="200" max="599" ...${field('upstream_status')} /><//>
      </div>
      <${Field} label="Headers" hint="One in each line: name: value"><textarea rows="2" ...${field('headers')}></textarea><//>
      <${Field} label="Body"><textarea rows="2" ...${field('body')}></textarea><//>
      <${Action} label="Try" tone="primary" run=${ask} done="" />
    </form>
    ${found === undefined ? null : html`<p role="status">${found.length > 1 ? `${tally(found)}. The last one:` : ''}</p>`}
    ${last === undefined ? null : html`<${Explanation} explanation=${last} policyText=${text} />`}
  </div>`
}

/** @param {string} text @returns {Record<string, string[]>} */
function headersOf(text) {
  /** @type {Record<string, string[]>} */
  const headers = {}
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':')
    if (colon === -1) continue
    const name = line.slice(0, colon).trim()
    headers[name] = [...(headers[name] ?? []), line.slice(colon + 1).trim()]
  }
  return headers
}

/** @param {readonly any[]} explanations */
function tally(explanations) {
  const counts = new Map()
  for (const { decision } of explanations) {
    const name = decision.outcome === 'answered' ? `answered ${decision.status}` : decision.outcome
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return [...counts].map(([name, count]) => `${count} × ${name}`).join(', ')
}

/**
 * Tests of a policy, which are run here and stored with it.
 * @param {{ edit: Edit, onTests: (text: string) => void, suggestion: string }} props
 */
export function PolicyTests({ edit: { place, text, tests, reason }, onTests, suggestion }) {
  const [found, show] = useState(/** @type {any} */ (undefined))
  const run = async () => show(await call('POST', '/policies/test', { text, tests }))
  const store = () => call('PATCH', place.path, { policy_tests: tests === '' ? null : tests })
  const example = `cases:\n  - name: it passes\n    steps:\n      - { request: { url: "${suggestion || 'http://localhost/'}" }, expect: { status: 200 } }\n`
  return html`<div>
    ${tests === '' ? html`<p>No tests yet. <button type="button" onClick=${() => onTests(example)}>Begin with a case</button></p>` : null}
    <${Editor} label="Tests" value=${tests} onInput=${onTests} rows=${12} marks=${found === undefined ? [] : marksOf(found)} />
    <div class="actions">
      <${Action} label="Run tests" tone="primary" run=${run} done="" reason=${tests === '' ? 'There are no tests.' : undefined} />
      <${Action} label="Store tests" run=${store} reason=${reason ?? (tests === place.tests ? 'They are stored as they stand here.' : undefined)} done="Stored" />
    </div>
    <p class="small">A write that changes the policy runs the tests that are stored with it, and is refused when one fails.</p>
    ${found === undefined ? null : html`<${TestResults} found=${found} />`}
  </div>`
}

/** @param {any} found */
function marksOf({ cases, problems }) {
  return [...cases.flatMap((/** @type {any} */ { failure }) => (failure === null ? [] : [failure])), ...problems].map(
    (one) => ({
      severity: 'error',
      length: 1,
      ...one
    })
  )
}

/** @param {{ found: any }} props */
function TestResults({ found: { passed, failed, cases, problems } }) {
  return html`<div role="status">
    <p><${Badge} tone=${failed > 0 || problems.length > 0 ? 'bad' : 'good'}>${passed} passed, ${failed} failed<//></p>
    ${problems.map((/** @type {any} */ { message, line }) => html`<${Problem} error=${{ message: `line ${line}: ${message}` }} />`)}
    <ul class="marks">
      ${cases.map(
        (/** @type {any} */ { name, failure }) => html`<li>
          <${Badge} tone=${failure === null ? 'good' : 'bad'}>${failure === null ? 'passed' : 'failed'}<//> ${name}${failure === null ? '' : html`: ${failure.message}`}
        </li>`
      )}
    </ul>
  </div>`
}

/** Dialogs of one exchange: sending its request again with changes, and making a test of it. */

import { call } from './api.js'
import { headerEdits, linesOfHeaders, missingOf, REDACTED, saveFile } from './exchange-text.js'
import { caseOf, documentOf, requestsBefore, testedOwner, withCase } from './test-case.js'
import { Action, Copyable, Dialog, Field, html, Problem, refusalOf, useLoad, useState } from './ui.js'

/** @param {{ exchange: any, onClose: () => void, onReplayed: (made: any) => void }} props */
export function EditReplay({ exchange, onClose, onReplayed }) {
  const { request } = exchange
  const before = {
    method: exchange.method,
    url: exchange.url,
    headers: linesOfHeaders(request.headers),
    body: request.body?.text ?? ''
  }
  const [form, set] = useState(before)
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    set((old) => ({ ...old, [name]: event.target.value }))
  const send = async () => {
    /** @type {Record<string, unknown>} */
    const edits = {}
    if (form.method !== before.method) edits.method = form.method.trim()
    if (form.url !== before.url) {
      if (form.url.includes(REDACTED))
        throw new Error('Part of the URL is redacted: enter it in full, or leave the URL unchanged.')
      edits.url = form.url.trim()
    }
    const headers = headerEdits(before.headers, form.headers)
    if (Object.keys(headers).length > 0) edits.headers = headers
    if (form.body !== before.body) {
      if (form.body.includes(REDACTED))
        throw new Error('Part of the body is redacted: enter it in full, or leave the body unchanged.')
      edits.body = form.body
    }
    const made = await call('POST', `/exchanges/${encodeURIComponent(exchange.id)}/replay`, edits)
    onReplayed(made)
    onClose()
  }
  const missing = missingOf(exchange)
  return html`<${Dialog} title="Edit and replay" onClose=${onClose} wide>
    <p class="small">
      What you leave as it is goes as it came, secrets included. Limits count the request, and the upstream answers it.
      ${missing === undefined ? '' : ` Not shown: ${missing}`}
    </p>
    <form onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <${Field} label="Method"><input value=${form.method} onInput=${change('method')} required /><//>
      <${Field} label="URL"><input type="url" value=${form.url} onInput=${change('url')} required /><//>
      <${Field} label="Headers" hint="One in each line: name: value.">
        <textarea class="mono" rows="8" spellcheck=${false} value=${form.headers} onInput=${change('headers')}></textarea>
      <//>
      <${Field} label="Body" hint=${bodyHint(request.body)}>
        <textarea class="mono" rows="6" spellcheck=${false} value=${form.body} onInput=${change('body')}></textarea>
      <//>
      <div class="actions">
        <${Action} label="Send" tone="primary" run=${send} reason=${refusalOf('exchanges')} />
        <button type="button" onClick=${onClose}>Cancel</button>
      </div>
    </form>
  <//>`
}

/** @param {any} body */
function bodyHint(body) {
  if (body === null) return 'No body was recorded; what you enter is sent instead.'
  if (body.text === undefined) return 'The body is binary; what you enter is sent instead.'
  return body.whole ? undefined : 'The body is truncated: enter all of it.'
}

/** @param {{ exchange: any, onClose: () => void }} props */
export function MakeTest({ exchange, onClose }) {
  const { data: made, error } = useLoad(() => makeTest(exchange), [exchange])
  return html`<${Dialog} title="Make a test" onClose=${onClose} wide>
    <${Problem} error=${error} />
    ${
      made !== undefined
        ? html`<${Made} made=${made} />`
        : error === undefined
          ? html`<p role="status">Counting similar requests …</p>`
          : null
    }
  <//>`
}

/** @param {any} exchange */
async function makeTest(exchange) {
  const before = await requestsBefore(exchange)
  const { method, url, decided } = exchange
  const path = URL.canParse(url) ? new URL(url).pathname : url
  const oneCase = caseOf(exchange, before ?? 0, `${method} ${path} is ${decided}`)
  const owner = testedOwner(exchange)
  const policy =
    owner === undefined
      ? undefined
      : await call('GET', `/explain/policies/${encodeURIComponent(owner)}`).catch(() => undefined)
  const place = /^\/edges\/(?:https\/[^/]+\/routes\/[^/]+|tcp\/[^/]+)(?=\/traffic_policy$)/.exec(
    policy?.source ?? ''
  )?.[0]
  return {
    oneCase,
    text: await documentOf(oneCase, policy?.text),
    unlike: before === undefined,
    place,
    policy,
    file: fileNameOf(policy?.source)
  }
}

/** @param {string | undefined} source */
function fileNameOf(source = '') {
  const [, name = 'policy'] = /([\w.-]+?)\.(?:ya?ml|json)$/.exec(source) ?? []
  return `${name}.test.yaml`
}

/** @param {{ made: Awaited<ReturnType<typeof makeTest>> }} props */
function Made({ made }) {
  const { text, unlike, file, place, policy } = made
  return html`
    ${
      unlike
        ? html`<p class="note">
            None of a thousand such requests is decided like this one by what serves now: the test will fail as it stands. What is secret is not in
            it, and what other servers answered is not known.
          </p>`
        : html`<p>It passes with the running configuration. Run it with <code>sluice test ${file}</code>.</p>`
    }
    <${Copyable} text=${text} label="Copy the test" />
    <div class="actions">
      <button type="button" onClick=${() => saveFile(file, text, 'application/yaml')}>Save as ${file}</button>
    </div>
    <h3>Store it with the policy</h3>
    ${
      place === undefined
        ? html`<p class="small">
            The policy lives in ${policy === undefined ? 'no place that the API writes' : html`<code>${policy.source}</code>`}, and so do its
            tests: put the text beside it. Routes and TCP edges of the API keep their tests themselves.
          </p>`
        : html`<${Keep} place=${place} made=${made} />`
    }`
}

/** Adds the case to the tests that a route keeps. @param {{ place: string, made: Awaited<ReturnType<typeof makeTest>> }} props */
function Keep({ place, made }) {
  const { data, error } = useLoad(() => stored(place), [place])
  if (data === undefined) return html`<${Problem} error=${error} />`
  const { tests, tag } = data
  const text = tests === null || tests.trim() === '' ? made.text : withCase(tests, made.oneCase)
  const reason =
    refusalOf(place.startsWith('/edges/tcp') ? 'tcp_edge.update' : 'https_edge_route.update') ??
    (text === undefined ? 'The stored tests are JSON or a single line: add the case by hand.' : undefined)
  const keep = async () => {
    await call('PATCH', place, { policy_tests: text }, { headers: tag === undefined ? {} : { 'if-match': tag } })
  }
  return html`<p class="small">
      ${tests === null ? 'It has no tests yet.' : 'The case is added to its tests.'} A write of the policy that fails them is refused from then on;
      they run before this write, too.
    </p>
    <div class="actions"><${Action} label="Add to the stored tests" run=${keep} reason=${reason} done="Added." /></div>`
}

/**
 * The tests of a route, and the version of its record.
 * @param {string} place
 */
async function stored(place) {
  /** @type {string | undefined} */
  let tag
  const record = await call('GET', place, undefined, {
    onHeaders: (headers) => {
      tag = headers.get('etag') ?? undefined
    }
  })
  return { tests: /** @type {string | null} */ (record.policy_tests), tag }
}

/** Decision about one request, as a tree beside the text of the policy with the deciding rule marked in it. */

import { FirewallMatches } from './firewall-matches.js'
import { MarkedPolicy } from './policy-text.js'
import { Badge, html, toneOf, useEffect, useMemo, useState, When } from './ui.js'

/** @typedef {import('./policy-text.js').PolicyText} PolicyText */

const RULE_WORDS = /** @type {Record<string, string>} */ ({
  matched: 'matched',
  not_matched: 'did not match',
  absent: 'did not match, a value is absent',
  failed: 'failed',
  not_reached: 'not reached'
})
const STEP_WORDS = /** @type {Record<string, string>} */ ({
  continued: 'went on',
  responded: 'answered',
  closed: 'closed the connection',
  led_on: 'led on to another entry',
  not_judged: 'not judged'
})
const ON_WORDS = /** @type {Record<string, string>} */ ({
  connect: 'on the connection',
  request: 'on the request',
  response: 'on the response'
})

/**
 * The rule that ended the exchange; where several owners have one with its name, the last that matched.
 * @param {any} explanation
 * @returns {{ owner: string, phase: string, rule: any } | undefined}
 */
export function decidingRule({ decision, steps }) {
  const { by } = decision
  if (by === null) return undefined
  let found
  for (const { phases } of steps) {
    for (const { phase, owner, rules } of phases) {
      if (phase !== by.phase) continue
      for (const rule of rules) {
        const decided =
          rule.outcome === 'failed' || rule.actions.some((/** @type {any} */ one) => one.outcome !== 'continued')
        if (rule.name === by.rule && decided) found = { owner, phase, rule }
      }
    }
  }
  return found
}

/**
 * An explanation. `policyText`: the text of the policy that ran (of the one that decided where several did), or texts by their
 * owners; without it the tree stands alone.
 * @param {{ explanation: any, policyText?: string | Readonly<Record<string, PolicyText>> | undefined }} props
 */
export function Explanation({ explanation, policyText }) {
  const deciding = useMemo(() => decidingRule(explanation), [explanation])
  const owners = useMemo(() => ownersOf(explanation), [explanation])
  const texts = useMemo(() => textsOf(policyText, deciding?.owner ?? owners[0]), [policyText, deciding, owners])
  const [mark, setMark] = useState(/** @type {{ owner: string, rule: any } | undefined} */ (undefined))
  useEffect(() => setMark(undefined), [explanation])
  const shown = mark ?? deciding
  const { steps, omitted, not_asked: notAsked = [] } = explanation
  // A policy without rules for a phase has nothing to say of it.
  const ran = steps.filter((/** @type {any} */ one) => one.phases.length > 0 || one.module !== 'traffic_policy')
  const context = { texts, deciding, onRule: setMark }
  return html`<div class="explanation">
    <${Decision} explanation=${explanation} />
    <${FirewallMatches} results=${explanation.waf ?? []} />
    <div class="columns">
      <div>
        <h3>Steps</h3>
        ${ran.length === 0 ? html`<p class="small">No module or policy ran.</p>` : null}
        <ol class="tree">
          ${ran.map((/** @type {any} */ step) => html`<li><${Step} step=${step} context=${context} /></li>`)}
          <li><${End} explanation=${explanation} /></li>
        </ol>
        ${omitted > 0 ? html`<p class="note">${omitted} more ${omitted === 1 ? 'record' : 'records'} not shown.</p>` : null}
        ${
          notAsked.length > 0
            ? html`<p class="note">
                Not asked, and taken as if they could not be reached: ${notAsked.join(', ')}
              </p>`
            : null
        }
      </div>
      ${
        owners.some((owner) => texts[owner] !== undefined)
          ? html`<div>
              ${owners.map((owner) => {
                const text = texts[owner]
                if (text === undefined) return null
                const rule = shown?.owner === owner ? shown.rule : undefined
                const decides = deciding?.owner === owner && mark === undefined
                return html`<${MarkedPolicy} key=${owner} owner=${owner} policy=${text} rule=${rule} decides=${decides} />`
              })}
            </div>`
          : null
      }
    </div>
  </div>`
}

/**
 * Whose policies ran.
 * @param {any} explanation
 * @returns {string[]}
 */
export function ownersOf(explanation) {
  /** @type {Set<string>} */
  const owners = new Set()
  for (const { phases } of explanation.steps) for (const { owner } of phases) owners.add(owner)
  return [...owners]
}

/**
 * @param {string | Readonly<Record<string, PolicyText>> | undefined} given
 * @param {string | undefined} owner
 * @returns {Readonly<Record<string, PolicyText>>}
 */
function textsOf(given, owner) {
  if (typeof given !== 'string') return given ?? {}
  return owner === undefined ? {} : { [owner]: { text: given } }
}

/** @param {{ explanation: any }} props */
function Decision({ explanation }) {
  const { decision, request, listener, edge, other_ports: ports = [], route, at, other_routes: others } = explanation
  return html`<p>
      <${Badge} tone=${toneOf(decision.status)}>${decisionWord(decision)}<//>${' '}
      ${decisionSentence(decision)}
    </p>
    <p class="small">
      <code>${request.method} ${request.url}</code> from ${request.client_ip}, <${When} at=${at} />, listener ${listener},
      ${edge === null ? (ports.length === 0 ? ' no site' : ` no site: the host is served on port ${ports.join(', ')} alone`) : ` site ${edge.name} (${edge.host}:${edge.port})`},
      ${route === null ? ' no route' : html` route <code>${route.name}</code>`}
    </p>
    ${
      others.length === 0
        ? null
        : html`<details>
            <summary>${others.length === 1 ? 'Another route' : `${others.length} other routes`} of the site did not match</summary>
            <ul class="small">
              ${others.map((/** @type {any} */ one) => html`<li><code>${one.path}</code> (${one.id}): ${one.why}</li>`)}
            </ul>
          </details>`
    }`
}

/** @param {any} decision */
function decisionWord({ outcome, status, code }) {
  if (status === 0) return outcome === 'closed' ? 'closed' : 'no answer'
  return code === null ? String(status) : `${status} ${code}`
}

/**
 * Why the exchange was refused or failed, or what decided it, in a sentence.
 * @param {any} decision
 */
export function decisionSentence({ outcome, by, reason }) {
  if (reason !== null && reason !== undefined) return `${reason}.`
  const what =
    outcome === 'forwarded'
      ? 'Forwarded'
      : outcome === 'closed'
        ? 'The connection was closed'
        : 'Answered without an upstream'
  return by === null
    ? `${what}; no rule ended it.`
    : html`${what}, by <code>${by.action}</code> of rule <strong>${by.rule}</strong> in <code>${by.phase}</code>.`
}

/** @param {{ step: any, context: any }} props */
function Step({ step, context }) {
  const { module, on, outcome, reason, phases, owner } = step
  const head = html`<strong>${module}</strong> ${ON_WORDS[on] ?? on}: ${STEP_WORDS[outcome] ?? outcome}${
    reason === undefined ? '' : `, ${reason}`
  } <span class="small">${owner}</span>`
  if (phases.length === 0) return head
  return html`<details open>
    <summary>${head}</summary>
    ${phases.map(
      (/** @type {any} */ phase) => html`<div class="phase">
        <code>${phase.phase}</code>
        <ol class="tree">
          ${phase.rules.map(
            (/** @type {any} */ rule) => html`<li>
              <${Rule} rule=${rule} phase=${phase} context=${context} />
            </li>`
          )}
        </ol>
      </div>`
    )}
  </details>`
}

/** @param {{ rule: any, phase: any, context: any }} props */
function Rule({ rule, phase, context }) {
  const { name, outcome, reason, expressions, actions } = rule
  const decides = context.deciding?.rule === rule
  const words = `${RULE_WORDS[outcome] ?? outcome}${reason === undefined ? '' : `: ${reason}`}`
  const tone = decides ? 'warn' : outcome === 'matched' ? 'good' : outcome === 'failed' ? 'bad' : ''
  const to = html`<${PlaceButton} owner=${phase.owner} rule=${rule} context=${context} />`
  const head = html`<span class=${outcome === 'not_reached' ? 'small' : ''}>${name}</span>${' '}
    <${Badge} tone=${tone}>${decides ? `${words}, and decided` : words}<//>`
  if (expressions.length === 0 && actions.length === 0)
    return html`<div class=${decides ? 'decides' : ''} aria-current=${decides ? 'true' : undefined}>${head} ${to}</div>`
  return html`<details open=${outcome === 'matched' || outcome === 'failed'} class=${decides ? 'decides' : ''} aria-current=${decides ? 'true' : undefined}>
    <summary>${head}</summary>
    ${to}
    <ul class="tree">
      ${expressions.map((/** @type {any} */ one) => html`<li><${Expression} expression=${one} /></li>`)}
      ${actions.map((/** @type {any} */ one) => html`<li><${ActionRun} action=${one} /></li>`)}
    </ul>
  </details>`
}

/** @param {{ owner: string, rule: any, context: any }} props */
function PlaceButton({ owner, rule, context }) {
  const { place } = rule
  if (context.texts[owner] === undefined) return html`<span class="small">line ${place.line}</span>`
  return html`<button type="button" class="small" onClick=${() => context.onRule({ owner, rule })}>
    line ${place.line}
  </button>`
}

/** @param {{ action: any }} props */
function ActionRun({ action }) {
  const { type, outcome, reason, published, edits, expressions } = action
  const tone = outcome === 'ended' ? 'warn' : outcome === 'failed' ? 'bad' : ''
  return html`<code>${type}</code> <${Badge} tone=${tone}>${outcome === 'ended' ? 'ended it' : outcome}<//>
    ${reason === undefined ? '' : ` ${reason}`}
    <ul class="tree">
      ${expressions.map((/** @type {any} */ one) => html`<li><${Expression} expression=${one} /></li>`)}
      ${Object.entries(published).map(
        ([name, value]) => html`<li><code>${name}</code> = <${Value} value=${value} /></li>`
      )}
      ${edits.map(
        (/** @type {any} */ { of, before, after }) =>
          html`<li><code>${of}</code>: <${Value} value=${before} /> → <${Value} value=${after} /></li>`
      )}
    </ul>`
}

/** The source, and each part of it with its value. @param {{ expression: any }} props */
function Expression({ expression }) {
  const { source, parts } = expression
  // What is as long as the whole has been said.
  const inner = parts.filter((/** @type {any} */ { length }) => length < source.length)
  return html`<code class="expression">${source.trim()}</code> = <${Result} of=${expression} />
    ${
      inner.length === 0
        ? null
        : html`<ul class="tree small">
            ${inner.map(
              (/** @type {any} */ part) => html`<li>
                <code>${source.slice(part.offset, part.offset + part.length)}</code> = <${Result} of=${part} />
                ${part.times === undefined ? '' : ` (the last of ${part.times})`}
              </li>`
            )}
          </ul>`
    }`
}

/** @param {{ of: any }} props */
function Result({ of }) {
  return of.missing === undefined ? html`<${Value} value=${of.value} />` : html`<em>no value: ${of.missing}</em>`
}

/** @param {{ value: any }} props */
function Value({ value }) {
  return html`<code class="value">${JSON.stringify(value) ?? 'null'}</code>`
}

/** What became of it after the steps. @param {{ explanation: any }} props */
function End({ explanation }) {
  const { upstream, response, decision } = explanation
  const answer = decision.status === 0 ? 'No answer' : `The client got ${decision.status}`
  return html`${
    upstream === null
      ? 'Nothing was forwarded. '
      : html`Forwarded to <strong>${upstream.backend}</strong>: <code>${upstream.method} ${upstream.uri}</code>. `
  }
  ${answer}${response === null || response.body === null || response.body === undefined ? '.' : html`: <code>${response.body}</code>`}`
}

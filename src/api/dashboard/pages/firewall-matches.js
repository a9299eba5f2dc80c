/** Rules of the web application firewall that matched in one request. */

import { Badge, countText, html, Table } from './ui.js'

/**
 * The decision of each action of the firewall, and the rules that matched with variable, value and transformations.
 * @param {{ results: readonly any[] }} props
 */
export function FirewallMatches({ results }) {
  return results.map(
    (
      /** @type {any} */ { action, decision, score, threshold, rules, omitted }
    ) => html`<section aria-label=${`Firewall, ${action}`}>
        <h3>
          Firewall, ${action} <${Badge} tone=${decision === 'allow' ? '' : 'warn'}>${decision}, score ${score} of ${threshold}<//>
        </h3>
        <${Table}
          label=${`Rules of ${action} that matched`}
          rows=${rules.map((/** @type {any} */ rule, /** @type {number} */ at) => ({ ...rule, at }))}
          id=${(/** @type {any} */ rule) => String(rule.at)}
          columns=${[
            { title: 'Rule', cell: (/** @type {any} */ rule) => html`<code>${rule.id}</code> ${rule.message}` },
            { title: 'Score', numeric: true, cell: (/** @type {any} */ rule) => rule.score },
            {
              title: 'Variable',
              cell: (/** @type {any} */ rule) => (rule.variable === '' ? '–' : html`<code>${rule.variable}</code>`)
            },
            { title: 'Value', cell: (/** @type {any} */ rule) => html`<code>${rule.value}</code>` },
            { title: 'After', cell: (/** @type {any} */ rule) => rule.transformations.join(', ') || '–' }
          ]}
        />
        ${omitted === 0 ? null : html`<p class="note">${countText(omitted, 'rule')} more.</p>`}
      </section>`
  )
}

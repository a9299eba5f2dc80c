import { PHASES, type Phase } from '../flow/flow.js'
import { didYouMean } from '../lib/suggest.js'
import type { Reporter } from './reporter.js'
import type { MapEntry } from './tree.js'

/** What carries a document: a TCP edge, or everything else. */
export type Carrier = 'http' | 'tcp'

/** Names that phases had until 2024, with their present ones. */
export const LEGACY_PHASES: ReadonlyMap<string, Phase> = new Map([
  ['inbound', 'on_http_request'],
  ['outbound', 'on_http_response']
])

/** What came in at a TCP edge was the connection itself. */
function presentName(key: string, carrier: Carrier): Phase | undefined {
  return carrier === 'tcp' && key === 'inbound' ? 'on_tcp_connect' : LEGACY_PHASES.get(key)
}

/** Keys that belong to what carries a document, not to the document. */
const WRAPPERS = ['policy', 'traffic_policy', 'value', 'spec', 'inline']

/** A key of the root that is no phase: the phase that it stood for, or undefined after a report. */
export function legacyKey({ key, keySpan, value }: MapEntry, carrier: Carrier, report: Reporter): Phase | undefined {
  const phase = presentName(key, carrier)
  if (phase !== undefined) {
    report.warning(
      [key],
      'LEGACY_PHASE',
      `"${key}" is the old name of "${phase}"; its rules run after those of "${phase}"`,
      keySpan
    )
    return phase
  }
  if (key === 'enabled') {
    enabledKey(value, keySpan, report)
    return undefined
  }
  const hint = WRAPPERS.includes(key)
    ? `; "${key}" belongs to what carries the document, so put the phases at the root`
    : didYouMean(key, [...PHASES, ...LEGACY_PHASES.keys(), 'strict_expressions'])
  report.error([key], 'PHASE_UNKNOWN', `"${key}" is no phase; phases are ${PHASES.join(', ')}${hint}`, keySpan)
  return undefined
}

/**
 * Old documents have `enabled` at the root. `true` says nothing and is tolerated. `false` has no safe meaning here: to
 * obey it would switch protection off by a word that everybody else ignores, to ignore it would run what its author
 * switched off. So it is refused, with the way out.
 */
function enabledKey(value: MapEntry['value'], keySpan: MapEntry['keySpan'], report: Reporter): void {
  if (value.kind === 'broken') return
  const switched = value.kind === 'scalar' ? value.value : undefined
  if (switched === true || switched === null) {
    const message =
      '"enabled" is no part of a policy document and has no effect; it belongs to the module that holds the policy'
    report.warning(['enabled'], 'LEGACY_ENABLED', message, keySpan)
    return
  }
  const message =
    switched === false
      ? 'a policy document cannot switch itself off; set "enabled" on the module that holds the policy and remove it here'
      : '"enabled" is no part of a policy document; remove it'
  report.error(['enabled'], 'DOCUMENT_INVALID', message, keySpan)
}

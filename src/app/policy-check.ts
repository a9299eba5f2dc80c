import type { DocumentLimits } from '../lib/caller-limits.js'
import { atOnce, type Steps } from '../lib/slices.js'
import { type Action, refusalOn } from '../policy/action.js'
import { compilingPolicy } from '../policy/compile.js'
import type { PolicyDocument } from '../policy/document.js'
import { formatPath, type Problem, policyErrors } from '../policy/problems.js'
import type { PolicyServices } from '../policy/services.js'
import type { PolicyCheck, PolicyLayer } from '../schema/field.js'

/**
 * Checks policy documents with the compiler that runs them, so that an accepted document can run. Each error is a problem
 * whose `details` have its position in the text.
 */
export function policyCheck(services: PolicyServices, actions: readonly Action[]): PolicyCheck {
  const checkingTraffic = policyProblems(services, actions)
  const checkingSecure = secureProblems(services, actions)
  const checking = (text: string, layer: PolicyLayer, limits?: DocumentLimits) =>
    layer === 'secure' ? checkingSecure(text) : checkingTraffic(text, layer, limits)
  const ready = new Map<string, readonly Problem[]>()
  const keyOf = (text: string, layer: string, limits?: DocumentLimits) => `${layer} ${JSON.stringify(limits)} ${text}`
  const check: PolicyCheck = (text, layer, limits) => {
    const problems = ready.get(keyOf(text, layer, limits)) ?? atOnce(checking(text, layer, limits))
    const errors = problems.filter(({ severity }) => severity === 'error')
    return errors.length === 0 ? undefined : errors.map(refusal)
  }
  check.ahead = (text, layer, limits) => {
    const key = keyOf(text, layer, limits)
    const keep = function* (): Steps<void> {
      ready.set(key, yield* checking(text, layer, limits))
    }
    return { checking: keep(), forget: () => void ready.delete(key) }
  }
  return check
}

/**
 * Errors and warnings of policy documents with their places, as the compiler that runs them finds them, in steps. `ipv6`: do clients come by IPv6?
 * A site file says it itself, behind its policies, so its reader takes the warnings back where it has no such listener.
 */
export function policyProblems(
  services: PolicyServices,
  actions: readonly Action[],
  ipv6: () => boolean = () => false
): (text: string, layer: 'http' | 'tcp', limits?: DocumentLimits) => Steps<readonly Problem[]> {
  return function* (text, layer, limits) {
    const { policy, problems } = yield* compilingPolicy(text, {
      owner: 'check',
      services,
      // Nothing is kept: counters belong to running policies.
      keep: { keep: (key, make) => make(JSON.stringify(key)) },
      actions,
      unavailable: 'refuse',
      carrier: layer,
      limits
    })
    if (problems.some(({ severity }) => severity === 'error')) return problems
    const many = ipv6() ? (policy?.named ?? []).filter(({ unit }) => unit.kind === 'one-address') : []
    return [
      ...problems,
      ...many.map(({ missing }) => missing),
      ...wrongLayer((yield* services.documents.reading(text, layer)).document, layer)
    ]
  }
}

/** Errors of a document whose other errors are known: actions that never work once the edge has ended TLS. */
function secureProblems({ documents }: PolicyServices, actions: readonly Action[]) {
  const reasons = new Map<string, string>()
  for (const action of actions) {
    const reason = action.availability === 'ready' ? refusalOn(action, 'secure') : undefined
    if (reason !== undefined) reasons.set(action.type, reason)
  }
  return function* (text: string): Steps<readonly Problem[]> {
    const { phases, source } = (yield* documents.reading(text, 'tcp')).document
    return phases.on_tcp_connect.flatMap((rule) =>
      rule.actions.flatMap(({ type, typeNode, path }): readonly Problem[] => {
        const message = reasons.get(type)
        if (message === undefined) return []
        const { start, end } = typeNode.span
        const place = { path: formatPath([...path, 'type']), ...source.place(start), length: end - start }
        return [{ severity: 'error', code: policyErrors.ACTION_PHASE.code, message, ...place }]
      })
    )
  }
}

function refusal({ code, message, path, line, column }: Omit<Problem, 'severity' | 'length'>) {
  return { code: `POLICY_${code}`, message, details: { path, line: String(line), column: String(column) } }
}

/** Returns a problem for a phase on the wrong layer: HTTPS edges have no `on_tcp_connect`, TCP edges only that. */
function wrongLayer(document: PolicyDocument, layer: 'http' | 'tcp'): Problem[] {
  for (const [phase, [rule]] of Object.entries(document.phases)) {
    if (rule === undefined || (phase === 'on_tcp_connect') === (layer === 'tcp')) continue
    const message = `${phase} does not run on ${layer === 'tcp' ? 'a TCP edge' : 'a route of an HTTPS edge'}`
    const place = document.source.place(rule.actions[0]?.typeNode.span.start ?? 0)
    return [{ severity: 'error', code: 'PHASE', message, path: formatPath(rule.path), ...place, length: phase.length }]
  }
  return []
}

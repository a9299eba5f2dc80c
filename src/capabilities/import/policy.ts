import type { RouteAction } from './model.js'

/** An action of a traffic policy. */
interface PolicyAction {
  readonly type: string
  readonly config?: Readonly<Record<string, unknown>>
}

/** A rule of a traffic policy. */
export interface PolicyRule {
  readonly name?: string
  readonly expressions?: readonly string[]
  readonly actions: readonly PolicyAction[]
}

export interface Policy {
  readonly on_http_request?: readonly PolicyRule[]
  readonly on_http_response?: readonly PolicyRule[]
}

/** Most fields of one action of headers. */
const MAX_HEADERS = 10

export const isResponseAction = (action: RouteAction) =>
  action.kind === 'response-header' || (action.kind === 'native' && action.phase === 'response')

/** Ends the policy with an answer if its condition is true. */
export const isAnswer = ({ kind }: RouteAction) => kind === 'respond' || kind === 'close' || kind === 'redirect'

/** Equal for actions that do the same, wherever they stand in the source. */
export function actionKey({ at: _at, ...rest }: RouteAction): string {
  return JSON.stringify(rest)
}

/** Rules for actions in their order; `expressions` hold for all of them. Compression is no rule: it is a module. */
export function requestRules(actions: readonly RouteAction[], expressions: readonly string[] = []): PolicyRule[] {
  const rules: { when: string | undefined; actions: PolicyAction[] }[] = []
  for (const action of actions) {
    const converted = requestAction(action)
    if (converted.length === 0) continue
    const last = rules.at(-1)
    if (last !== undefined && last.when === action.when) last.actions.push(...converted)
    else rules.push({ when: action.when, actions: converted })
    // Nothing behind an answer without a condition is reached.
    if (isAnswer(action) && action.when === undefined && !('pattern' in action)) break
  }
  return rules.map(({ when, actions }) =>
    withExpressions(when === undefined ? expressions : [...expressions, when], mergeHeaders(actions))
  )
}

/** Rules for the response header fields of `actions`. */
export function responseRules(actions: readonly RouteAction[], expressions: readonly string[] = []): PolicyRule[] {
  const rules: { conditions: readonly string[]; actions: PolicyAction[] }[] = []
  for (const action of actions) {
    if (!isResponseAction(action)) continue
    const conditions = [
      ...(action.when === undefined ? [] : [action.when]),
      ...(action.kind !== 'response-header' || action.statuses === undefined
        ? []
        : [`res.status_code in [${action.statuses.join(', ')}]`])
    ]
    const converted: PolicyAction[] = []
    if (action.kind === 'native') converted.push({ type: action.type, config: action.config })
    if (action.kind === 'response-header' && action.mode === 'set')
      converted.push({ type: 'remove-headers', config: { headers: [action.name] } })
    if (action.kind === 'response-header' && action.value !== '')
      converted.push({ type: 'add-headers', config: { headers: { [action.name]: action.value } } })
    const last = rules.at(-1)
    if (last !== undefined && last.conditions.join() === conditions.join()) last.actions.push(...converted)
    else rules.push({ conditions, actions: converted })
  }
  return rules.map(({ conditions, actions }) => withExpressions([...expressions, ...conditions], mergeHeaders(actions)))
}

function withExpressions(expressions: readonly string[], actions: readonly PolicyAction[]): PolicyRule {
  return expressions.length === 0 ? { actions } : { expressions, actions }
}

function requestAction(action: RouteAction): PolicyAction[] {
  switch (action.kind) {
    case 'respond': {
      const { status, body, contentType } = action
      if (status >= 400 && body === undefined) return [{ type: 'deny', config: { status_code: status } }]
      const headers =
        body === undefined || contentType === undefined ? {} : { headers: { 'content-type': contentType } }
      return [
        {
          type: 'custom-response',
          config: { status_code: status, ...(body === undefined ? {} : { body }), ...headers }
        }
      ]
    }
    case 'close':
      return [{ type: 'close-connection' }]
    case 'redirect': {
      const { status, to, pattern } = action
      return [
        { type: 'redirect', config: { ...(pattern === undefined ? {} : { from: pattern }), to, status_code: status } }
      ]
    }
    case 'rewrite':
      return [{ type: 'url-rewrite', config: { from: action.pattern, to: action.to } }]
    case 'request-header': {
      const remove = { type: 'remove-headers', config: { headers: [action.name] } }
      return action.value === ''
        ? [remove]
        : [remove, { type: 'add-headers', config: { headers: { [action.name]: action.value } } }]
    }
    case 'rate-limit': {
      const { name, capacity, window, key } = action
      const config = { name, algorithm: 'sliding_window', capacity, rate: `${window}s`, bucket_key: [key] }
      return [{ type: 'rate-limit', config }]
    }
    case 'basic-auth': {
      const credentials = action.credentials?.map(({ username, passwordHash }) => ({
        username,
        password_hash: passwordHash
      }))
      const { realm, file } = action
      return [
        {
          type: 'basic-auth',
          config: {
            realm,
            ...(file === undefined ? {} : { file }),
            ...(credentials === undefined ? {} : { credentials })
          }
        }
      ]
    }
    case 'addresses': {
      const { allow, deny } = action
      return [
        {
          type: 'restrict-ips',
          config: { ...(allow.length > 0 ? { allow } : {}), ...(deny.length > 0 ? { deny } : {}) }
        }
      ]
    }
    case 'native':
      return action.phase === 'request' ? [{ type: action.type, config: action.config }] : []
    case 'variable':
      return [{ type: 'set-vars', config: { vars: [{ [action.name]: `\${${action.cel}}` }] } }]
    case 'response-header':
    case 'compress':
      return []
  }
}

/** Joins actions of header fields that follow each other. */
function mergeHeaders(actions: readonly PolicyAction[]): PolicyAction[] {
  const removed = joined(
    actions.filter(({ type }) => type === 'remove-headers'),
    'remove-headers'
  )
  const added = joined(
    actions.filter(({ type }) => type === 'add-headers'),
    'add-headers'
  )
  const first = actions.findIndex(({ type }) => type === 'remove-headers' || type === 'add-headers')
  if (first === -1) return [...actions]
  const rest = (part: readonly PolicyAction[]) =>
    part.filter(({ type }) => type !== 'remove-headers' && type !== 'add-headers')
  return [...actions.slice(0, first), ...removed, ...added, ...rest(actions.slice(first))]
}

function joined(actions: readonly PolicyAction[], type: 'remove-headers' | 'add-headers'): PolicyAction[] {
  if (type === 'remove-headers') {
    const names = [...new Set(actions.flatMap(({ config }) => config?.headers as string[]))]
    return chunks(names).map((headers) => ({ type, config: { headers } }))
  }
  const result: Record<string, string>[] = []
  for (const { config } of actions) {
    for (const [name, value] of Object.entries(config?.headers as Record<string, string>)) {
      const place = result.find((headers) => !(name in headers) && Object.keys(headers).length < MAX_HEADERS)
      if (place === undefined) result.push({ [name]: value })
      else place[name] = value
    }
  }
  return result.map((headers) => ({ type, config: { headers } }))
}

function chunks<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / MAX_HEADERS) }, (_, index) =>
    items.slice(index * MAX_HEADERS, (index + 1) * MAX_HEADERS)
  )
}

/**
 * A policy without empty phases; undefined if it has no rule. `variables`: actions that set variables; each policy sets those
 * that it reads, because policies do not share them.
 */
export function policyOf(
  request: readonly PolicyRule[],
  response: readonly PolicyRule[],
  variables: readonly RouteAction[] = []
): Policy | undefined {
  if (request.length === 0 && response.length === 0) return undefined
  const text = JSON.stringify([request, response])
  const read = variables.filter((action) => action.kind === 'variable' && text.includes(`vars.${action.name}`))
  const all = [...requestRules(read), ...request]
  return {
    ...(all.length > 0 ? { on_http_request: all } : {}),
    ...(response.length > 0 ? { on_http_response: response } : {})
  }
}

export const forwardRule = (name: string, expressions: readonly string[], host: string): PolicyRule => ({
  name,
  expressions,
  actions: [{ type: 'forward-internal', config: { url: `https://${host}` } }]
})

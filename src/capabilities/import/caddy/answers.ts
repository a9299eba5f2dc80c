import { toRe2 } from '../cel.js'
import { close, EXACT, notHere, type RouteAction, type Verdict } from '../model.js'
import { escapeRegex } from '../requests-in-cel.js'
import { hasPlaceholder, toTemplate } from './placeholders.js'
import type { CaddyDirective } from './syntax.js'

/** Actions of a directive with its verdict. */
export interface Converted {
  readonly actions: readonly RouteAction[]
  readonly verdict: Verdict
}

const UNKNOWN_PLACEHOLDER = notHere(
  'it has a placeholder without a counterpart, or a variable of the environment that is not set',
  'write the action with an expression'
)

/** `respond [status|body] [status] { body …; close }`. */
export function readRespond({ args, block = [], at }: CaddyDirective): Converted {
  const [first = '200', second] = args
  const isStatus = /^\d{3}$/.test(first) && second === undefined
  const written = isStatus ? block.find(({ name }) => name === 'body')?.args[0] : first
  const status = Number(isStatus ? first : (second ?? 200))
  const body = written === undefined ? undefined : toTemplate(written)
  if ((written !== undefined && body === undefined) || !(status >= 200 && status <= 599))
    return { actions: [{ kind: 'respond', status: 503, at }], verdict: UNKNOWN_PLACEHOLDER }
  if (block.some(({ name }) => name === 'close') && body === undefined)
    return { actions: [{ kind: 'respond', status, at }], verdict: close('the connection stays open') }
  return {
    actions: [
      { kind: 'respond', status, ...(body === undefined ? {} : { body, contentType: 'text/plain; charset=utf-8' }), at }
    ],
    verdict: EXACT
  }
}

const REDIRECTS = { temporary: 302, permanent: 301 } as const

/** `redir <to> [code]`. `pattern`: expression of the matcher, whose groups `{re.name.1}` are `$1`. */
export function readRedirect({ args, at }: CaddyDirective, pattern: string | undefined): Converted {
  const [to = '', code = '302'] = args
  const status = Number(REDIRECTS[code as 'permanent'] ?? code)
  if (status !== 301 && status !== 302 && status !== 303 && status !== 307 && status !== 308)
    return {
      actions: [{ kind: 'respond', status: 503, at }],
      verdict: notHere(
        `there is no redirect by "${code}"`,
        'write the action redirect; the route answers 503 until then'
      )
    }
  const hasGroups = /\{re\.[\w.]+\}/.test(to)
  const target = toTemplate(to.replace(/\{(?:http\.regexp|re)\.(?:\w+\.)?(\d+)\}/g, '$$$1'))
  if (target === undefined || (hasGroups && pattern === undefined))
    return { actions: [{ kind: 'respond', status: 503, at }], verdict: UNKNOWN_PLACEHOLDER }
  return {
    actions: [
      {
        kind: 'redirect',
        status,
        to: target,
        ...(hasGroups && pattern !== undefined ? { pattern: onPath(pattern) } : {}),
        at
      }
    ],
    verdict: EXACT
  }
}

/** Changes a pattern on the path to one on path and query, in which `$` matches before the query. */
const onPath = (pattern: string) =>
  pattern.endsWith('$') && !pattern.endsWith('\\$') ? `${pattern.slice(0, -1)}(?:\\?.*)?$` : pattern

/** `rewrite <to>`: the whole path; the query stays unless `to` has one. */
export function readRewrite({ args: [to = ''], at }: CaddyDirective): Converted {
  const whole = /^(\/[^{}?]*)?\{uri\}$/.exec(to)
  if (whole !== null && whole[1] !== undefined)
    return { actions: [{ kind: 'rewrite', pattern: '^', to: whole[1].replaceAll('$', '$$$$'), at }], verdict: EXACT }
  const template = toTemplate(to)
  if (template === undefined) return { actions: [{ kind: 'respond', status: 503, at }], verdict: UNKNOWN_PLACEHOLDER }
  const pattern = to.includes('?') ? '^.*$' : '^[^?]*'
  return {
    actions: [{ kind: 'rewrite', pattern, to: hasPlaceholder(to) ? template : template.replaceAll('$', '$$$$'), at }],
    verdict: EXACT
  }
}

export const stripAction = (prefix: string, at: RouteAction['at']): RouteAction => ({
  kind: 'rewrite',
  pattern: `^${escapeRegex(prefix)}/?`,
  to: '/',
  at
})

/** `uri strip_prefix|strip_suffix|replace|path_regexp …`. */
export function readUri({ args: [operation = '', first = '', second = ''], at }: CaddyDirective): Converted {
  if (operation === 'strip_prefix')
    return { actions: [stripAction(first.replace(/\/$/, '').replace(/^(?!\/)/, '/'), at)], verdict: EXACT }
  if (operation === 'strip_suffix')
    return { actions: [{ kind: 'rewrite', pattern: `${escapeRegex(first)}(\\?|$)`, to: '$1', at }], verdict: EXACT }
  const pattern = operation === 'path_regexp' ? toRe2(first) : operation === 'replace' ? escapeRegex(first) : undefined
  if (pattern === undefined || hasPlaceholder(second))
    return { actions: [], verdict: notHere('this change of the path is not converted', 'write the action url-rewrite') }
  return {
    actions: [{ kind: 'rewrite', pattern, to: second.replaceAll('$', operation === 'replace' ? '$$$$' : '$'), at }],
    verdict: close('the first match is replaced, not all of them')
  }
}

/** `header` of a site, or `header_down` of a proxy: each line sets, adds (`+`), removes (`-`) or sets by default (`?`). */
export function readResponseHeader({ args, block, at }: CaddyDirective): Converted {
  const lines =
    block === undefined
      ? [{ words: args, at }]
      : block.map(({ name, args: rest, at: place }) => ({ words: [name, ...rest], at: place }))
  const actions: RouteAction[] = []
  let verdict: Verdict = EXACT
  const isLate = lines.some(({ words: [name = ''] }) => /^[-+>?]|^defer$/.test(name))
  for (const { words } of lines) {
    const [written = '', value = '', replacement] = words
    if (written === 'defer' || written === 'match') {
      if (written === 'match')
        return { actions: [], verdict: notHere('it is for some answers only', 'write add-headers with an expression') }
      continue
    }
    const name = written.replace(/^[-+>?]/, '').toLowerCase()
    const template = toTemplate(value)
    if (replacement !== undefined || name.includes('*') || template === undefined) {
      verdict =
        template === undefined
          ? UNKNOWN_PLACEHOLDER
          : notHere(`"${written}" changes a part of a field, or several fields`, 'write remove-headers and add-headers')
      continue
    }
    const sign = written[0]
    if (sign === '-') actions.push({ kind: 'response-header', name, value: '', mode: 'set', at })
    else if (sign === '?')
      actions.push({
        kind: 'response-header',
        name,
        value: template,
        mode: 'set',
        when: `!hasResHeader('${name}')`,
        at
      })
    else {
      if (sign !== '+' && !isLate && verdict.kind === 'exact')
        verdict = close('it takes the place of the same field of the upstream')
      actions.push({ kind: 'response-header', name, value: template, mode: sign === '+' ? 'add' : 'set', at })
    }
  }
  return { actions, verdict }
}

/** `request_header`, or `header_up` of a proxy. */
export function readRequestHeader({ args, at }: CaddyDirective): Converted {
  const [written = '', value = '', replacement] = args
  const name = written.replace(/^[-+>?]/, '').toLowerCase()
  const template = toTemplate(value)
  if (template === undefined) return { actions: [], verdict: UNKNOWN_PLACEHOLDER }
  if (replacement !== undefined || name.includes('*'))
    return {
      actions: [],
      verdict: notHere('it changes a part of a field, or several fields', 'write remove-headers and add-headers')
    }
  if (name === 'host') {
    const isOwn = value === '{host}' || value === '{hostport}' || value === '{http.request.host}'
    return { actions: [], verdict: isOwn ? EXACT : close('the upstream gets the host that the client asked for') }
  }
  if (['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'].includes(name))
    return { actions: [], verdict: close('Sluice writes it by itself') }
  return {
    actions: [{ kind: 'request-header', name, value: written.startsWith('-') ? '' : template, at }],
    verdict: written.startsWith('+') ? close('it takes the place of the same field of the client') : EXACT
  }
}

/** `basic_auth [hash] [realm] { user hash }`. Without a hash that Sluice knows, every request is denied. */
export function readBasicAuth({ args, block = [], at }: CaddyDirective): Converted {
  const realm = args[1] ?? 'restricted'
  const credentials = block.map(({ name, args: [passwordHash = ''] }) => ({ username: name, passwordHash }))
  const known = credentials.every(({ passwordHash }) => /^\$(?:2[aby]|argon2id)\$/.test(passwordHash))
  if (credentials.length === 0 || !known)
    return {
      actions: [{ kind: 'respond', status: 503, at }],
      verdict: notHere(
        'its passwords are no hashes of bcrypt; the route answers 503',
        'write basic-auth with hashes of `sluice hash-password`'
      )
    }
  return { actions: [{ kind: 'basic-auth', realm, credentials, at }], verdict: EXACT }
}

import { type Fields, fieldsOf, textOf, textsOf } from '../values.js'
import { type AdaptedTree, durationText, type JsonPath, toList } from './adapted-tree.js'
import type { CaddyDirective } from './syntax.js'

interface HandlerContext {
  readonly tree: AdaptedTree
  readonly path: JsonPath
  /** Token of the matcher; empty without one. */
  readonly matcher: readonly string[]
}

/** Returns the directives from which `caddy adapt` makes a JSON handler. An unknown handler keeps its name, which then gets the verdict. */
export function handlerLines(handler: Fields, context: HandlerContext): CaddyDirective[] {
  const { tree, path, matcher } = context
  const name = textOf(handler.handler) ?? 'handler'
  const line = (directive: string, args: readonly string[] = [], block?: readonly CaddyDirective[]) =>
    tree.line(path, directive, [...matcher, ...args], block)
  switch (name) {
    case 'vars':
      return Object.entries(handler).flatMap(([key, value]) =>
        key === 'handler'
          ? []
          : [tree.line([...path, key], key === 'root' ? 'root' : 'vars', [...matcher, textOf(value) ?? ''])]
      )
    case 'headers':
      return headersLines(handler, context)
    case 'static_response':
      return responseLines(handler, context)
    case 'rewrite':
      return rewriteLines(handler, context)
    case 'encode':
      return [line('encode')]
    case 'request_body':
      return [line(name, [], [tree.line(path, 'max_size', [textOf(handler.max_size) ?? ''])])]
    case 'authentication':
      return [authenticationLine(handler, context)]
    case 'file_server':
      return [line(name, [], fileLines(handler, context))]
    case 'reverse_proxy':
      return [line(name, serverAddresses(handler), proxyLines(handler, context))]
    default:
      return [line(name)]
  }
}

function rewriteLines(handler: Fields, { tree, path, matcher }: HandlerContext): CaddyDirective[] {
  return Object.entries(handler).flatMap(([key, value]): CaddyDirective[] => {
    const at = [...path, key]
    const uri = (...args: readonly string[]) => tree.line(at, 'uri', [...matcher, ...args])
    const replaced = (operation: string) =>
      toList(value).map((one, index) => {
        const { find, replace } = fieldsOf(one)
        const words = [operation, textOf(find) ?? '', textOf(replace) ?? '']
        return tree.line([...at, index], 'uri', [...matcher, ...words])
      })
    switch (key) {
      case 'handler':
        return []
      case 'uri':
        return [tree.line(at, 'rewrite', [...matcher, textOf(value) ?? ''])]
      case 'strip_path_prefix':
        return [uri('strip_prefix', textOf(value) ?? '')]
      case 'strip_path_suffix':
        return [uri('strip_suffix', textOf(value) ?? '')]
      case 'uri_substring':
        return replaced('replace')
      case 'path_regexp':
        return replaced('path_regexp')
      default:
        return [tree.line(at, key === 'method' ? 'method' : key, matcher)]
    }
  })
}

function responseLines(handler: Fields, { tree, path, matcher }: HandlerContext): CaddyDirective[] {
  const { Location: location, ...headers } = fieldsOf(handler.headers)
  const status = textOf(handler.status_code) ?? '200'
  const body = textOf(handler.body) ?? ''
  const [to] = textsOf(location)
  const fields = Object.entries(headers).map(([name, values]) => tree.line(path, name, [textsOf(values)[0] ?? '']))
  const before = fields.length === 0 ? [] : [tree.line([...path, 'headers'], 'header', matcher, fields)]
  if (handler.abort === true) return [tree.line(path, 'abort', matcher)]
  if (to !== undefined && status.startsWith('3')) return [...before, tree.line(path, 'redir', [...matcher, to, status])]
  const block = handler.close === true ? [tree.line(path, 'close', [])] : undefined
  return [...before, tree.line(path, 'respond', [...matcher, ...(body === '' ? [status] : [body, status])], block)]
}

/** Returns the lines of header operations: `set` replaces, `add` appends, `delete` removes, `replace` changes a part. */
function operations(operated: Fields, path: JsonPath): { readonly path: JsonPath; readonly args: string[] }[] {
  const of = (kind: string) => Object.entries(fieldsOf(operated[kind]))
  return [
    ...of('set').flatMap(([name, values]) =>
      textsWhole(values).map((value, index) => ({
        path: [...path, 'set', name],
        args: [`${index === 0 ? '' : '+'}${name}`, value]
      }))
    ),
    ...of('add').flatMap(([name, values]) =>
      textsWhole(values).map((value) => ({ path: [...path, 'add', name], args: [`+${name}`, value] }))
    ),
    ...textsOf(operated.delete).map((name, index) => ({ path: [...path, 'delete', index], args: [`-${name}`] })),
    ...of('replace').map(([name]) => ({ path: [...path, 'replace', name], args: [name, '', ''] }))
  ]
}

const textsWhole = (values: unknown) => toList(values).flatMap((value) => textOf(value) ?? [])

function headersLines({ request, response }: Fields, { tree, path, matcher }: HandlerContext): CaddyDirective[] {
  const lines = operations(fieldsOf(request), [...path, 'request']).map((one) =>
    tree.line(one.path, 'request_header', [...matcher, ...one.args])
  )
  if (response === undefined) return lines
  const { require, deferred, ...operated } = fieldsOf(response)
  const missing = Object.keys(fieldsOf(fieldsOf(require).headers))
  const found = operations(operated, [...path, 'response'])
  // `?Field value` sets a field that the upstream has not sent.
  const isDefault = missing.length > 0 && found.every(({ args: [name = ''] }) => missing.includes(name))
  const fields = found.map((one) => {
    const [name = '', ...args] = one.args
    return tree.line(one.path, isDefault ? `?${name}` : name, args)
  })
  const others = [
    ...(deferred === true && !isDefault ? [tree.line(path, 'defer', [])] : []),
    ...(require !== undefined && !isDefault ? [tree.line(path, 'match', [])] : [])
  ]
  return [...lines, tree.line([...path, 'response'], 'header', matcher, [...fields, ...others])]
}

function authenticationLine({ providers }: Fields, { tree, path, matcher }: HandlerContext): CaddyDirective {
  const { http_basic: basic, ...others } = fieldsOf(providers)
  const { accounts, hash, realm } = fieldsOf(basic)
  if (basic === undefined || Object.keys(others).length > 0) return tree.line(path, 'authenticate', matcher)
  const users = toList(accounts).map((account) => {
    const { username, password } = fieldsOf(account)
    const written = textOf(password) ?? ''
    const plain = written.startsWith('$') ? written : Buffer.from(written, 'base64').toString('utf8')
    return tree.line(path, textOf(username) ?? '', [plain])
  })
  const algorithm = textOf(fieldsOf(hash).algorithm) ?? 'bcrypt'
  return tree.line(path, 'basic_auth', [...matcher, algorithm, textOf(realm) ?? 'restricted'], users)
}

/** Names of lines by keys of the file server; others keep theirs. */
const FILE_LINES: Readonly<Record<string, string>> = { index_names: 'index', precompressed_order: 'precompressed' }

function fileLines(handler: Fields, { tree, path }: HandlerContext): CaddyDirective[] {
  return Object.entries(handler).flatMap(([key, value]): CaddyDirective[] => {
    if (key === 'handler' || (key === 'canonical_uris' && value === true)) return []
    const at = [...path, key]
    if (key === 'canonical_uris') return [tree.line(at, 'disable_canonical_uris', [])]
    // `caddy adapt` adds the path of the Caddyfile, which Caddy hides by default.
    if (key === 'hide')
      return [
        tree.line(
          at,
          key,
          textsOf(value).map((one) => (/(?:^|\/)Caddyfile$/.test(one) ? 'Caddyfile' : one))
        )
      ]
    const args = key === 'root' || key === 'status_code' ? [textOf(value) ?? ''] : textsOf(value)
    return [tree.line(at, FILE_LINES[key] ?? key, args)]
  })
}

function serverAddresses({ upstreams }: Fields): string[] {
  return toList(upstreams).map((one) => {
    const { dial, lookup_srv: srv } = fieldsOf(one)
    return srv === undefined ? (textOf(dial) ?? '') : `srv+${textOf(srv)}`
  })
}

/** Keys of a proxy that are read as part of others. */
const PROXY_PARTS = ['handler', 'upstreams', 'headers', 'load_balancing', 'health_checks', 'transport']

function proxyLines(handler: Fields, { tree, path }: HandlerContext): CaddyDirective[] {
  const lines: CaddyDirective[] = []
  const { headers, load_balancing: balancing, health_checks: health, transport } = handler
  const add = (at: JsonPath, name: string, args: readonly string[], block?: readonly CaddyDirective[]) =>
    lines.push(tree.line([...path, ...at], name, args, block))
  for (const [kind, name] of [
    ['request', 'header_up'],
    ['response', 'header_down']
  ] as const) {
    const at = [...path, 'headers', kind]
    for (const one of operations(fieldsOf(fieldsOf(headers)[kind]), at)) lines.push(tree.line(one.path, name, one.args))
  }
  for (const [key, value] of Object.entries(fieldsOf(balancing))) {
    const at = ['load_balancing', key]
    if (key === 'selection_policy') {
      const { policy, field, key: query, name } = fieldsOf(value)
      add(at, 'lb_policy', [textOf(policy) ?? '', ...[field ?? query ?? name].flatMap((one) => textOf(one) ?? [])])
    } else add(at, `lb_${key}`, [durationText(value)])
  }
  for (const kind of ['active', 'passive'])
    for (const [key, value] of Object.entries(fieldsOf(fieldsOf(health)[kind])))
      add(['health_checks', kind, key], kind === 'active' ? `health_${key}` : key, [
        /duration|interval|timeout|latency/.test(key) ? durationText(value) : (textOf(value) ?? '')
      ])
  if (transport !== undefined)
    add(
      ['transport'],
      'transport',
      [textOf(fieldsOf(transport).protocol) ?? ''],
      transportLines(fieldsOf(transport), tree, [...path, 'transport'])
    )
  for (const [index, one] of toList(handler.upstreams).entries())
    for (const key of Object.keys(fieldsOf(one)))
      if (key !== 'dial' && key !== 'lookup_srv') add(['upstreams', index, key], key, [])
  for (const key of Object.keys(handler))
    if (!PROXY_PARTS.includes(key)) add([key], key === 'dynamic_upstreams' ? 'dynamic' : key, [])
  return lines
}

function transportLines(transport: Fields, tree: AdaptedTree, path: JsonPath): CaddyDirective[] {
  const lines: CaddyDirective[] = []
  const add = (at: JsonPath, name: string, args: readonly string[]) =>
    lines.push(tree.line([...path, ...at], name, args))
  for (const [key, value] of Object.entries(transport)) {
    if (key === 'protocol') continue
    if (key === 'tls') {
      add([key], 'tls', [])
      for (const [name, one] of Object.entries(fieldsOf(value))) {
        const at = ['tls', name]
        if (name === 'insecure_skip_verify') add(at, 'tls_insecure_skip_verify', [])
        else if (name === 'server_name') add(at, 'tls_server_name', [textOf(one) ?? ''])
        else if (name === 'root_ca_pem_files') add(at, 'tls_trusted_ca_certs', textsOf(one))
        else if (name === 'ca' && textsOf(fieldsOf(one).pem_files).length === 1)
          add(at, 'tls_trust_pool', ['file', ...textsOf(fieldsOf(one).pem_files)])
        else add(at, `tls_${name}`, [])
      }
    } else if (key === 'versions') add([key], key, textsOf(value))
    else add([key], key === 'keep_alive' ? 'keepalive' : key, [durationText(value)])
  }
  return lines
}

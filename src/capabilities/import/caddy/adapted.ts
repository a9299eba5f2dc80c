import { type Fields, fieldsOf, textOf, textsOf } from '../values.js'
import { readYaml } from '../yaml-document.js'
import { type PlacedRoute, routesToDirectives } from './adapted-routes.js'
import { type AdaptedTree, shortPlaceholders, toList } from './adapted-tree.js'
import type { CaddyBlock, CaddyDirective } from './syntax.js'

/** Keys of a server that sites, listeners and other lines have. */
const SERVER_KEYS = ['listen', 'routes', 'errors', 'logs', 'tls_connection_policies', 'automatic_https']

/** Names that differ between the global options of a Caddyfile and the first level of JSON. */
const OPTIONS: Readonly<Record<string, string>> = { logging: 'log', admin: 'admin', storage: 'storage' }

/** True for the JSON of `caddy adapt`, which is also what the API of Caddy has: a map with `apps`. */
export function isAdapted(text: string): boolean {
  if (!/^\s*\{/.test(text)) return false
  try {
    return Object.hasOwn(fieldsOf(JSON.parse(text)), 'apps')
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return false
  }
}

/** Returns JSON of `caddy adapt` as the blocks of a Caddyfile that says the same, with positions in the JSON. */
export function adaptedBlocks(text: string, file: string): CaddyBlock[] {
  const { data, positionOf } = readYaml(text, file)
  const tree: AdaptedTree = {
    at: positionOf,
    line: (path, name, args, block) => ({
      name,
      args: args.map(shortPlaceholders),
      block,
      at: positionOf(path)
    })
  }
  const apps = fieldsOf(data.apps)
  const http = fieldsOf(apps.http)
  const servers = Object.entries(fieldsOf(http.servers))
  const options = optionLines(data, tree)
  const sites = servers.flatMap(([name, server]) =>
    siteBlocks(fieldsOf(server), { tree, path: ['apps', 'http', 'servers', name], http, tls: fieldsOf(apps.tls) })
  )
  return [
    ...(options.length === 0 ? [] : [{ keys: [], directives: options, at: { file, line: 1, column: 1 } }]),
    ...sites
  ]
}

function optionLines(data: Fields, tree: AdaptedTree): CaddyDirective[] {
  const apps = fieldsOf(data.apps)
  const http = fieldsOf(apps.http)
  const lines: CaddyDirective[] = []
  for (const key of Object.keys(data)) if (key !== 'apps') lines.push(tree.line([key], OPTIONS[key] ?? key, []))
  for (const [key, value] of Object.entries(http))
    if (key !== 'servers') lines.push(tree.line(['apps', 'http', key], key, [textOf(value) ?? '']))
  for (const [name, server] of Object.entries(fieldsOf(http.servers)))
    for (const key of Object.keys(fieldsOf(server)))
      if (!SERVER_KEYS.includes(key)) lines.push(tree.line(['apps', 'http', 'servers', name, key], 'servers', [key]))
  for (const key of Object.keys(apps))
    if (key !== 'http' && key !== 'tls') lines.push(tree.line(['apps', key], key, []))
  const policies = fieldsOf(fieldsOf(apps.tls).automation).policies
  for (const [index, policy] of toList(policies).entries()) {
    const issuer = toList(fieldsOf(policy).issuers)
      .map(fieldsOf)
      .find(({ email }) => textOf(email) !== undefined)
    if (issuer !== undefined)
      lines.push(tree.line(['apps', 'tls', 'automation', 'policies', index], 'email', [textOf(issuer.email) ?? '']))
  }
  return lines
}

interface ServerContext {
  readonly tree: AdaptedTree
  readonly path: readonly (string | number)[]
  readonly http: Fields
  readonly tls: Fields
}

/** Returns a site for each set of hosts named by routes of the server, and one for all other hosts if a route names none. */
function siteBlocks(server: Fields, context: ServerContext): CaddyBlock[] {
  const { tree, path } = context
  const routes = toList(server.routes).map(fieldsOf)
  const sets = new Map<
    string,
    { readonly hosts: readonly string[]; readonly paths: readonly string[]; index: number }
  >()
  for (const [index, route] of routes.entries()) {
    const hosts = routeHosts(route)
    const paths = hosts.length === 0 ? [] : sitePaths(route)
    const key = JSON.stringify([hosts, paths])
    if (!sets.has(key)) sets.set(key, { hosts, paths, index })
  }
  const blocks = [...sets.values()].map(({ hosts, paths, index }): CaddyBlock => {
    const served: PlacedRoute[] = []
    for (const [at, route] of routes.entries()) {
      const own = routeHosts(route)
      if (own.length > 0 && JSON.stringify([own, sitePaths(route)]) !== JSON.stringify([hosts, paths])) continue
      const isSite = own.length > 0
      served.push({ route: isSite ? withoutHosts(route) : route, path: [...path, 'routes', at] })
      if (isSite && route.terminal === true) break
    }
    return {
      keys: siteAddresses(server, hosts, context).flatMap((key) =>
        paths.length === 0 ? key : paths.map((one) => key + one)
      ),
      directives: [
        ...tlsLines(server, hosts, context),
        tree.line(
          [...path, 'routes', index, 'handle'],
          'route',
          [],
          routesToDirectives(served.flatMap(unwrapped), tree)
        )
      ],
      at: tree.at([...path, 'routes', index])
    }
  })
  const [first, ...others] = blocks
  if (first === undefined) return []
  const extra = [
    ...(server.errors === undefined ? [] : [tree.line([...path, 'errors'], 'handle_errors', [])]),
    ...(server.logs === undefined ? [] : [tree.line([...path, 'logs'], 'log', [])])
  ]
  return [{ ...first, directives: [...extra, ...first.directives] }, ...others]
}

/** Returns the routes inside a route that only contains them. */
function unwrapped(placed: PlacedRoute): readonly PlacedRoute[] {
  const { match, handle, terminal, group } = placed.route
  const [handler, ...others] = toList(handle).map(fieldsOf)
  const isPlain = [match, terminal, group, handler?.errors].every((value) => value === undefined)
  if (!isPlain || others.length > 0 || handler?.handler !== 'subroute') return [placed]
  return toList(handler.routes).map((route, index) => ({
    route: fieldsOf(route),
    path: [...placed.path, 'handle', 0, 'routes', index]
  }))
}

const routeMatchers = (route: Fields) => toList(route.match).map(fieldsOf)

/** Returns the hosts of a route whose matchers all name hosts; empty for other routes. */
function routeHosts(route: Fields): string[] {
  const sets = routeMatchers(route)
  return sets.every(({ host }) => toList(host).length > 0) ? sets.flatMap(({ host }) => textsOf(host)) : []
}

/** Returns the paths of a site below a path, whose route matches hosts and paths only. */
function sitePaths(route: Fields): string[] {
  const sets = routeMatchers(route)
  return sets.every((set) => Object.keys(set).sort().join() === 'host,path')
    ? sets.flatMap(({ path }) => textsOf(path))
    : []
}

function withoutHosts(route: Fields): Fields {
  const isBelowPath = sitePaths(route).length > 0
  const sets = routeMatchers(route).map(({ host: _host, ...rest }) => rest)
  const isPlain = isBelowPath || sets.some((set) => Object.keys(set).length === 0)
  const { match: _match, terminal: _terminal, ...plain } = route
  return isPlain ? plain : { ...plain, match: sets }
}

/** Returns the addresses of a site in the form of Caddyfiles. */
function siteAddresses(server: Fields, hosts: readonly string[], { http }: ServerContext): string[] {
  const ports = textsOf(server.listen).map((listen) => /:(\d+|\{\$[^{}]*\})$/.exec(listen)?.[1] ?? '')
  const automatic = fieldsOf(server.automatic_https)
  const skipped = textsOf(automatic.skip)
  const httpPort = textOf(http.http_port) ?? '80'
  const httpsPort = textOf(http.https_port) ?? '443'
  const policies = toList(server.tls_connection_policies)
  return (hosts.length === 0 ? [''] : hosts).flatMap((written) => {
    const host = shortPlaceholders(written)
    return ports.map((port) => {
      const isSkipped = host === '' || skipped.includes(host)
      const isPlain = automatic.disable === true || (isSkipped && policies.length === 0)
      if (port === httpPort || isPlain) return `http://${host}:${port}`
      const redirects = automatic.disable_redirects !== true && !servesPlain(http, httpPort, host)
      return port === httpsPort && redirects && host !== '' ? host : `https://${host}:${port}`
    })
  })
}

/** True if another server of the file serves the host on the port without TLS, so that Caddy does not redirect it. */
function servesPlain(http: Fields, port: string, host: string): boolean {
  return Object.values(fieldsOf(http.servers)).some((server) => {
    const { listen, routes } = fieldsOf(server)
    const hosts = toList(routes).map((route) => routeHosts(fieldsOf(route)))
    return textsOf(listen).some((one) => one.endsWith(`:${port}`)) && hosts.some((set) => set.includes(host))
  })
}

/** Returns the `tls` lines of a site. */
function tlsLines(server: Fields, hosts: readonly string[], { tree, path, tls }: ServerContext): CaddyDirective[] {
  const files = toList(fieldsOf(tls.certificates).load_files).map(fieldsOf)
  const lines: CaddyDirective[] = []
  for (const [index, policy] of toList(server.tls_connection_policies).map(fieldsOf).entries()) {
    const sni = textsOf(fieldsOf(policy.match).sni)
    if (sni.length > 0 && !sni.some((name) => hosts.includes(name))) continue
    const at = [...path, 'tls_connection_policies', index]
    const tags = textsOf(fieldsOf(policy.certificate_selection).any_tag)
    const file = files.find((one) => textsOf(one.tags).some((tag) => tags.includes(tag)))
    const args = file === undefined ? [] : [textOf(file.certificate) ?? '', textOf(file.key) ?? '']
    const block: CaddyDirective[] = []
    for (const [key, value] of Object.entries(policy)) {
      const line = (name: string, words: readonly string[], inner?: readonly CaddyDirective[]) =>
        block.push(tree.line([...at, key], name, words, inner))
      if (key === 'protocol_min') line('protocols', [textOf(value) ?? ''])
      else if (key === 'client_authentication') {
        const { mode, trusted_ca_certs_pem_files: given, ca } = fieldsOf(value)
        const [caFile = textsOf(fieldsOf(ca).pem_files)[0]] = textsOf(given)
        line(
          'client_auth',
          [],
          [
            ...(mode === undefined ? [] : [tree.line([...at, key], 'mode', [textOf(mode) ?? ''])]),
            ...(caFile === undefined ? [] : [tree.line([...at, key], 'trusted_ca_cert_file', [caFile])])
          ]
        )
      } else if (key !== 'match' && key !== 'certificate_selection') line(key, [])
    }
    if (args.length > 0 || block.length > 0) lines.push(tree.line(at, 'tls', args, block))
    break
  }
  const isInternal = (policy: Fields) =>
    textsOf(policy.subjects).some((name) => hosts.includes(name)) &&
    fieldsOf(toList(policy.issuers)[0]).module === 'internal'
  const own = toList(fieldsOf(tls.automation).policies).map(fieldsOf).findIndex(isInternal)
  return own === -1
    ? lines
    : [...lines, tree.line(['apps', 'tls', 'automation', 'policies', own, 'issuers'], 'tls', ['internal'])]
}

import { dirname, isAbsolute, join } from 'node:path'
import { CodedError, codeOf } from '../../../lib/errors.js'
import { celText } from '../cel.js'
import { importErrors } from '../errors.js'
import { listenersOf } from '../listeners.js'
import {
  close,
  EXACT,
  type HostPort,
  type ImportedConfig,
  type ImportedHost,
  type ImportSources,
  notHere,
  type SourcePosition,
  type Verdict
} from '../model.js'
import { withoutShadowed } from '../reachable.js'
import { Ledger } from '../report.js'
import { UpstreamSet } from '../upstream-set.js'
import { adaptedBlocks, isAdapted } from './adapted.js'
import { readAddress } from './addresses.js'
import { fillVariables, keepVariables } from './placeholders.js'
import { type CaddyBlock, type CaddyDirective, caddyText, movedUp, parseCaddyfile } from './syntax.js'
import { ERRORS, SiteWalk } from './walk.js'

const MAX_IMPORTS = 1000
const MAX_IMPORT_DEPTH = 20
const UNREACHED = close('it is not reached, or part of another statement')

/** Directives whose lines belong to their own statement. */
const WHOLE = [
  'basic_auth',
  'basicauth',
  'respond',
  'header',
  'request_body',
  'file_server',
  'encode',
  'handle_errors',
  'log',
  'tls',
  'servers'
]

/** Reads Caddyfiles: the common part of the language, with snippets and imported files. */
export async function readCaddy(files: readonly string[], sources: ImportSources): Promise<ImportedConfig> {
  const ledger = new Ledger()
  const reader = new CaddyReader(sources, ledger)
  for (const file of files) await reader.read(file)
  return reader.config()
}

class CaddyReader {
  readonly #sources: ImportSources
  readonly #ledger: Ledger
  readonly #snippets = new Map<string, CaddyBlock>()
  readonly #upstreams = new UpstreamSet()
  readonly #hosts: ImportedHost[] = []
  readonly #known = new Set<string>()
  /** Sites below a path, which are not converted. */
  readonly #closed: { readonly host: ImportedHost; readonly path: string }[] = []
  #httpPort = 80
  #httpsPort = 443
  #isAutomatic = true
  #imports = 0

  constructor(sources: ImportSources, ledger: Ledger) {
    this.#sources = sources
    this.#ledger = ledger
  }

  async read(file: string): Promise<void> {
    const text = await this.#sources.readFile(file)
    const blocks = isAdapted(text) ? adaptedBlocks(text, file) : await this.#blocks(file, 0)
    for (const [index, block] of blocks.entries()) await this.#block(block, index === 0)
  }

  config(): ImportedConfig {
    for (const { host, path } of this.#closed) {
      const [known] = this.#hosts.filter(({ names }) => names.some((name) => host.names.includes(name)))
      const bare = path.replace(/\*$/, '')
      const when = `req.url.path.startsWith(${celText(bare)})`
      const action = { kind: 'respond', status: 503, when, at: host.at } as const
      if (known === undefined) this.#hosts.push(host)
      else this.#hosts[this.#hosts.indexOf(known)] = { ...known, actions: [action, ...known.actions] }
    }
    return {
      format: 'caddy',
      listeners: listenersOf(this.#hosts),
      hosts: this.#hosts,
      upstreams: this.#upstreams.all(),
      statements: this.#ledger.statements((text) => (text.startsWith('@') ? EXACT : UNREACHED))
    }
  }

  /** Returns the blocks of a file, with those of imported files in place. */
  async #blocks(file: string, depth: number): Promise<CaddyBlock[]> {
    const result: CaddyBlock[] = []
    for (const block of parseCaddyfile(await this.#sources.readFile(file), file)) {
      const [directive] = block.directives
      if (block.keys.length === 0 && directive?.name === 'import' && block.directives.length === 1) {
        this.#record(directive, [])
        for (const path of await this.#paths(directive)) {
          this.#count(directive, depth)
          result.push(...(await this.#blocks(path, depth + 1)))
        }
      } else result.push(block)
    }
    return result
  }

  #count({ at }: CaddyDirective, depth: number): void {
    if (depth < MAX_IMPORT_DEPTH && ++this.#imports <= MAX_IMPORTS) return
    throw new CodedError(
      importErrors.IMPORT_INCLUDE,
      `${at.file}:${at.line}:${at.column}: files or snippets import each other`
    )
  }

  /** Returns the files of an import; only the last part of the path may have a star. */
  async #paths({ args: [pattern = ''], at }: CaddyDirective): Promise<string[]> {
    const path = isAbsolute(pattern) ? pattern : join(dirname(at.file), pattern)
    if (!path.includes('*')) return [path]
    const folder = dirname(path)
    const regex = new RegExp(
      `^(?!\\.)${path
        .slice(path.lastIndexOf('/') + 1)
        .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
        .replaceAll('*', '.*')}$`
    )
    try {
      return (await this.#sources.listFolder(folder))
        .filter((name) => regex.test(name))
        .sort()
        .map((name) => join(folder, name))
    } catch (error) {
      if (codeOf(error) === undefined) throw error
      return []
    }
  }

  /** Records a directive once, however often a snippet is imported. */
  #record(directive: CaddyDirective, within: readonly SourcePosition[]): void {
    const { at, block = [], name } = directive
    const key = `${at.file}:${at.line}:${at.column}`
    if (!this.#known.has(key)) {
      this.#known.add(key)
      this.#ledger.add(at, caddyText(directive), within)
    }
    if (WHOLE.includes(name) || name.startsWith('@')) return
    for (const line of block) this.#record(line, [at, ...within])
  }

  /** Returns directives with each `import` replaced by the content of its snippet or file. */
  async #expand(
    directives: readonly CaddyDirective[],
    args: readonly string[],
    depth: number
  ): Promise<CaddyDirective[]> {
    const result: CaddyDirective[] = []
    for (const written of directives) {
      const directive = this.#filled(written, args)
      const {
        name,
        args: [target = '', ...given],
        block
      } = directive
      if (name !== 'import') {
        result.push(block === undefined ? directive : { ...directive, block: await this.#expand(block, args, depth) })
        continue
      }
      this.#count(directive, depth)
      result.push(directive)
      const snippet = this.#snippets.get(target)
      if (snippet !== undefined) result.push(...(await this.#expand(snippet.directives, given, depth + 1)))
      else result.push(...(await this.#imported(directive, given, depth)))
    }
    return result
  }

  async #imported(directive: CaddyDirective, given: readonly string[], depth: number): Promise<CaddyDirective[]> {
    const { at } = directive
    const result: CaddyDirective[] = []
    for (const path of await this.#paths(directive)) {
      let text: string
      try {
        text = await this.#sources.readFile(path)
      } catch (error) {
        if (codeOf(error) === undefined) throw error
        throw new CodedError(
          importErrors.IMPORT_INCLUDE,
          `${at.file}:${at.line}:${at.column}: ${path} cannot be read`,
          { cause: error }
        )
      }
      // A file that is imported into a site has directives without a block.
      const wrapped = parseCaddyfile(`:0 {\n${text}\n}`, path)
      const lines = (wrapped[0]?.directives ?? []).map(movedUp)
      result.push(...(await this.#expand(lines, given, depth + 1)))
    }
    return result
  }

  /** Inserts the arguments of the snippet, and environment variables where site files have none. */
  #filled(directive: CaddyDirective, args: readonly string[]): CaddyDirective {
    const isServer = ['reverse_proxy', 'to'].includes(directive.name)
    const fill = (text: string) => {
      const own = text.replace(
        /\{args(?:\[(\d+)\]|\.(\d+))\}/g,
        (all, one?: string, other?: string) => args[Number(one ?? other)] ?? all
      )
      return isServer ? own : fillVariables(own, this.#sources.environment).text
    }
    return { ...directive, args: directive.args.map(fill) }
  }

  async #block(block: CaddyBlock, isFirst: boolean): Promise<void> {
    const { keys, at } = block
    const [key = ''] = keys
    const snippet = /^\(([^()]+)\)$/.exec(key)?.[1]
    if (snippet !== undefined) {
      this.#snippets.set(snippet, block)
      this.#ledger.add(at, `${key} {`)
      this.#ledger.judge(at, EXACT)
      return
    }
    this.#ledger.add(at, `${keys.join(', ')}${keys.length === 0 ? '{' : ' {'}`.trim())
    if (keys.length === 0) {
      await this.#options(block)
      return
    }
    await this.#site(block, isFirst)
  }

  async #options({ directives, at }: CaddyBlock): Promise<void> {
    this.#ledger.judge(at, EXACT)
    for (const directive of await this.#expand(directives, [], 0)) {
      this.#record(directive, [at])
      const [value = ''] = directive.args
      let verdict: Verdict
      switch (directive.name) {
        case 'http_port':
          this.#httpPort = Number(value)
          verdict = EXACT
          break
        case 'https_port':
          this.#httpsPort = Number(value)
          verdict = EXACT
          break
        case 'auto_https':
          this.#isAutomatic = value !== 'off'
          verdict = value === 'off' ? EXACT : close('write redirect and certificate of the sites')
          break
        case 'email':
        case 'acme_ca':
          verdict = close('write acme: { agree_to_terms: true, email: …, directory: … }')
          break
        case 'debug':
        case 'log':
        case 'admin':
        case 'grace_period':
          verdict = close('an option of Sluice says it (docs/reference/options.md)')
          break
        default:
          verdict = notHere('it has no counterpart in a site file', 'see docs/reference/options.md')
      }
      this.#ledger.judge(directive.at, verdict)
    }
  }

  async #site({ keys, directives, at }: CaddyBlock, isFirst: boolean): Promise<void> {
    const all = await this.#expand(directives, [], 0)
    for (const directive of all) this.#record(directive, [at])
    this.#trap(keys, at, isFirst)
    const walk = new SiteWalk(this.#ledger, this.#upstreams)
    const settings = this.#settings(all, at)
    walk.site(all, at)
    const { routes, shadowed } = withoutShadowed(walk.routes)
    for (const { at: place } of shadowed)
      if (!routes.some((route) => route.at === place))
        this.#ledger.judge(place, close('another directive takes all its requests first'))
    const addresses = keys.map((key) =>
      readAddress(keepVariables(this.#withPort(key)), {
        http: this.#httpPort,
        https: this.#httpsPort,
        isAutomatic: this.#isAutomatic
      })
    )
    const groups = new Map<string, { names: string[]; ports: readonly HostPort[]; path: string }>()
    for (const { name, ports, path } of addresses) {
      const group = groups.get(JSON.stringify([ports, path])) ?? { names: [], ports, path }
      group.names.push(name)
      groups.set(JSON.stringify([ports, path]), group)
    }
    for (const { names, ports, path } of groups.values()) {
      const isTls = ports.some(({ tls }) => tls)
      this.#ledger.judge(at, EXACT)
      if (isTls && settings.certificate === undefined)
        this.#ledger.judge(at, close('its certificate needs acme: { agree_to_terms: true } in the site file'))
      if (path !== '') {
        this.#ledger.judge(
          at,
          notHere(
            'a site below a path is not converted; this path answers 503',
            'write a route of the site of the host'
          )
        )
        this.#closePath(names, ports, path, at)
        continue
      }
      this.#hosts.push({
        at,
        verdict: EXACT,
        names,
        ports,
        ...(isTls ? settings : {}),
        ...(isTls && !ports.some(({ tls }) => !tls) ? {} : isTls ? { plainHttp: 'redirect' } : { plainHttp: 'serve' }),
        actions: [...(settings.closes === true ? [{ kind: 'respond', status: 503, at } as const] : [])],
        routes
      })
    }
  }

  /** Inserts the variable of a port, which must be known for the listener. */
  #withPort(key: string): string {
    return key.replace(/:\{\$[^{}]*\}$/, (port) => fillVariables(port, this.#sources.environment).text)
  }

  #closePath(names: readonly string[], ports: readonly HostPort[], path: string, at: SourcePosition): void {
    const actions = [{ kind: 'respond', status: 503, at } as const]
    this.#closed.push({ host: { at, verdict: EXACT, names, ports, actions, routes: [] }, path })
  }

  /** Warns of a first block whose address is an empty variable: Caddy reads it as global options. */
  #trap(keys: readonly string[], at: SourcePosition, isFirst: boolean): void {
    const variables = keys.flatMap((key) => /^\{\$([A-Za-z_]\w*)\}$/.exec(key)?.[1] ?? [])
    const empty = variables.filter((name) => (this.#sources.environment[name] ?? '') === '')
    if (!isFirst || empty.length < keys.length || empty.length === 0) return
    this.#ledger.judge(
      at,
      close(
        `where ${empty.join(', ')} is empty, Caddy reads the block as global options and serves no site; Sluice refuses the file`
      )
    )
  }

  /** Reads `tls`, `bind` and `log` of a site. */
  #settings(
    directives: readonly CaddyDirective[],
    site: SourcePosition
  ): Partial<ImportedHost> & { readonly closes?: boolean } {
    let result: Partial<ImportedHost> & { closes?: boolean } = {}
    for (const { name, args, block = [], at } of directives) {
      if (name === 'log')
        this.#ledger.judge(at, close('the access log is an option of Sluice: access_log_file, access_log_format'))
      else if (name === 'bind')
        this.#ledger.judge(at, close('the listener takes every address; write its address in listeners'))
      else if (name === 'import') this.#ledger.judge(at, EXACT)
      else if (name === 'handle_errors') this.#ledger.judge(at, ERRORS)
      if (name !== 'tls') continue
      const [certificateFile, keyFile] = args
      let verdict: Verdict = EXACT
      if (certificateFile !== undefined && keyFile !== undefined)
        result = { ...result, certificate: { certificateFile, keyFile, at: site, verdict: EXACT } }
      else if (certificateFile === 'internal')
        verdict = close('write certificate and key, or take the certificate of development')
      else if (certificateFile !== undefined) verdict = close('write the address as email of acme')
      for (const line of block) {
        if (line.name === 'protocols') result = line.args[0] === 'tls1.3' ? { ...result, minTlsVersion: '1.3' } : result
        else if (line.name === 'client_auth') {
          const mode = line.block?.find((one) => one.name === 'mode')?.args[0] ?? 'require_and_verify'
          const pool = line.block?.find((one) => /^trusted_ca_cert_file$|^trust_pool$/.test(one.name))
          const caFile =
            pool?.name === 'trusted_ca_cert_file'
              ? pool.args[0]
              : (pool?.args[1] ?? pool?.block?.find((one) => one.name === 'pem_file')?.args[0])
          if (mode === 'require_and_verify' && caFile !== undefined)
            result = { ...result, clientCertificates: { caFile, required: true } }
          else {
            result = { ...result, closes: true }
            verdict = notHere(
              'client certificates are checked in another way; the site answers 503',
              'write mutual_tls'
            )
          }
        } else
          verdict =
            verdict.kind === 'not-here'
              ? verdict
              : notHere(`"${line.name}" is not converted`, 'see tls_termination and acme in docs/site-file.md')
      }
      this.#ledger.judge(at, verdict)
    }
    return result
  }
}

import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { isAlias, isMap, isScalar, LineCounter, type Node, type Pair, parseDocument } from 'yaml'
import { foreignEnvironments } from '../capabilities/options.js'
import { formatAuthority } from '../lib/host.js'
import { didYouMean } from '../lib/suggest.js'
import { fileReason } from '../lib/system-errors.js'
import { yamlMistake } from '../lib/yaml-mistakes.js'
import {
  formatOrigin,
  isOption,
  type OptionEntry,
  type OptionOrigin,
  type OptionProblem,
  type OptionTree,
  optionEntries,
  optionTree
} from './catalogue.js'
import type { Options } from './options.js'
import { readOption } from './read.js'
import type { ListenAddress } from './values.js'

/** One option as written in a file. */
interface WrittenOption {
  readonly entry: OptionEntry
  readonly written: unknown
  readonly origin: OptionOrigin
}

interface OptionsFile {
  readonly options: readonly WrittenOption[]
  readonly problems: readonly OptionProblem[]
}

/** Reads an options file (YAML). Messages call it `name`. An unreadable file is reported as a problem, not thrown. */
async function readOptionsFile(path: string, name: string, tree: OptionTree): Promise<OptionsFile> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const why = fileReason(error)
    return {
      options: [],
      problems: [
        { severity: 'error', option: '', message: why, origin: { kind: 'file', file: name, line: 1, column: 1 } }
      ]
    }
  }
  return new FileReader(text, name).read(tree)
}

class FileReader {
  readonly #lines = new LineCounter()
  readonly #document
  readonly #name: string
  readonly #text: string
  readonly #options: WrittenOption[] = []
  readonly #problems: OptionProblem[] = []

  constructor(text: string, name: string) {
    this.#name = name
    this.#text = text
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false })
  }

  read(tree: OptionTree): OptionsFile {
    let reported = 0
    for (const error of [...this.#document.errors, ...this.#document.warnings]) {
      // One mistake causes several errors on its line; only the first is reported.
      const { line } = this.#lines.linePos(error.pos[0])
      if (line === reported) continue
      reported = line
      this.#problem('', `this is not valid YAML: ${yamlMistake(error, this.#text)}`, error.pos[0])
    }
    if (this.#problems.length === 0) this.#section(this.#document.contents, tree, '')
    return { options: this.#options, problems: this.#problems }
  }

  /** An empty section or option counts as not set. */
  #section(node: Node | null, tree: OptionTree, path: string): void {
    const content = this.#resolve(node)
    if (content === undefined || (isScalar(content) && content.value === null)) return
    if (!isMap(content)) {
      const what =
        path === ''
          ? 'the file must hold options, one `name: value` on each line'
          : `must hold options: ${[...tree.keys()].join(', ')}`
      this.#problem(path, what, content.range?.[0])
      return
    }
    for (const pair of content.items as Pair<Node, Node | null>[]) this.#pair(pair, tree, path)
  }

  #pair({ key, value }: Pair<Node, Node | null>, tree: OptionTree, path: string): void {
    const name = isScalar(key) ? String(key.value) : ''
    const inner = path === '' ? name : `${path}.${name}`
    const known = tree.get(name)
    if (known === undefined) {
      this.#problem(inner, `there is no such option${didYouMean(name, tree.keys())}`, key.range?.[0])
      return
    }
    if (!isOption(known)) {
      this.#section(value, known, inner)
      return
    }
    const node = this.#resolve(value)
    const written: unknown = node?.toJS(this.#document)
    if (written === null || written === undefined) return
    this.#options.push({ entry: known, written, origin: this.#place(value?.range?.[0]) })
  }

  #resolve(node: Node | null): Node | undefined {
    return (isAlias(node) ? node.resolve(this.#document) : node) ?? undefined
  }

  #problem(option: string, message: string, offset: number | undefined): void {
    this.#problems.push({ severity: 'error', option, message, origin: this.#place(offset) })
  }

  #place(offset = 0): OptionOrigin {
    const { line, col } = this.#lines.linePos(offset)
    return { kind: 'file', file: this.#name, line: Math.max(1, line), column: Math.max(1, col) }
  }
}

/** A command-line flag that sets an option. */
export interface OptionFlag {
  /** `--listen` */
  readonly flag: string
  /** Path of the option: `listen` */
  readonly option: string
  readonly text: string
}

/** Inputs of the options. Precedence: flags, environment variables, file, defaults. */
export interface LoadInput {
  readonly flags: readonly OptionFlag[]
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Options file, relative to `folder`; `SLUICE_CONFIG` can name it, too. */
  readonly config?: string
  /** Absolute path of the base folder for relative paths in flags, variables and defaults. */
  readonly folder: string
}

/** Complete, valid options with the source of each. */
export interface LoadedOptions {
  readonly options: Options
  /** Sources by option path; options that were not set have `default`. */
  readonly origins: ReadonlyMap<string, OptionOrigin>
  readonly warnings: readonly OptionProblem[]
  /** Absolute path of the options file, if any. */
  readonly file?: string
}

export type LoadResult =
  | ({ readonly ok: true } & LoadedOptions)
  | { readonly ok: false; readonly problems: readonly OptionProblem[] }

/** Option whose default is the folder of the options file, or an empty list without a file. */
const KEY_FOLDERS = 'jwt.key_folders'

/** Option whose default yields to the listeners of a site file. */
const LISTEN = 'listen'

/** Option with secret values. */
const SECRET_FIELDS = 'otlp.headers'

/** Environment variables that no option of the file has. */
const OTHER_VARIABLES = [
  'SLUICE_CONFIG',
  'SLUICE_API_KEY',
  'SLUICE_SEAL_KEY',
  'SLUICE_SEAL_KEY_NEW',
  'SLUICE_PASSPHRASE',
  'SLUICE_TOKEN'
]

/**
 * Loads the options of the process: flags override environment variables, which override the file, which overrides defaults. All problems
 * of all sources are collected; overridden values are checked, too. An empty variable counts as not set.
 */
export async function loadOptions(input: LoadInput): Promise<LoadResult> {
  const tree = optionTree()
  const entries = optionEntries(tree)
  const problems: OptionProblem[] = []
  const config = input.config ?? given(input.environment.SLUICE_CONFIG)
  const file = config === undefined ? undefined : resolve(input.folder, config)
  const values = new Map<string, unknown>()
  const origins = new Map<string, OptionOrigin>()

  const take = ({ entry, written, origin }: WrittenOption, base: string) => {
    const reading = readOption(written, entry.schema, base)
    if (reading.ok) {
      values.set(entry.path, reading.value)
      origins.set(entry.path, origin)
    } else {
      const shown = entry.path === SECRET_FIELDS ? 'what is given' : quote(written)
      const message = `${shown} is not allowed; give ${reading.refused}`
      problems.push({ severity: 'error', option: entry.path, message, origin })
    }
  }
  for (const option of defaultsOf(entries)) take(option, input.folder)
  if (file !== undefined) {
    const content = await readOptionsFile(file, config as string, tree)
    problems.push(...content.problems)
    for (const option of content.options) take(option, dirname(file))
  }
  for (const option of foreignOf(input.environment, entries, problems)) take(option, input.folder)
  for (const option of environmentOf(input.environment, entries, problems)) take(option, input.folder)
  for (const option of flagsOf(input.flags, entries)) take(option, input.folder)
  // Policy authors are not necessarily allowed to read files of this machine.
  if (!values.has(KEY_FOLDERS)) values.set(KEY_FOLDERS, file === undefined ? [] : [dirname(file)])

  const listen = values.get(LISTEN) as ListenAddress
  if (origins.get(LISTEN)?.kind === 'default') values.set(LISTEN, { ...listen, preset: true } satisfies ListenAddress)
  const options = assemble(entries, values)
  if (problems.some(({ severity }) => severity === 'error')) return { ok: false, problems }
  problems.push(...contradictions(options, origins))
  if (problems.some(({ severity }) => severity === 'error')) return { ok: false, problems }
  return { ok: true, options, origins, warnings: problems, ...(file === undefined ? {} : { file }) }
}

/** Shells and compose files write an empty variable for "not set". */
function given(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}

function* defaultsOf(entries: readonly OptionEntry[]): Iterable<WrittenOption> {
  for (const entry of entries) {
    if (entry.schema.default !== undefined) yield { entry, written: entry.schema.default, origin: { kind: 'default' } }
  }
}

function* environmentOf(
  environment: LoadInput['environment'],
  entries: readonly OptionEntry[],
  problems: OptionProblem[]
): Iterable<WrittenOption> {
  const byVariable = new Map(entries.map((entry) => [entry.variable, entry]))
  for (const variable of Object.keys(environment).sort()) {
    if (!variable.startsWith('SLUICE_') || OTHER_VARIABLES.includes(variable)) continue
    const origin: OptionOrigin = { kind: 'environment', variable }
    const entry = byVariable.get(variable)
    const text = given(environment[variable])
    if (entry === undefined) {
      const message = `no option has this variable${didYouMean(variable, [...byVariable.keys(), ...OTHER_VARIABLES])}`
      problems.push({ severity: 'warning', option: '', message, origin })
    } else if (text !== undefined) yield { entry, written: text, origin }
  }
}

/** Variables of other programs set the options of the same meaning; variables of Sluice override them. */
function* foreignOf(
  environment: LoadInput['environment'],
  entries: readonly OptionEntry[],
  problems: OptionProblem[]
): Iterable<WrittenOption> {
  for (const read of foreignEnvironments) {
    const foreign = read(environment)
    for (const { severity, variable, option, message } of foreign.problems)
      problems.push({ severity, option, message, origin: { kind: 'environment', variable } })
    for (const { variable, option, text } of foreign.options) {
      const entry = entries.find(({ path }) => path === option)
      if (entry === undefined) throw new RangeError(`${variable} sets ${option}, which is no option`)
      yield { entry, written: text, origin: { kind: 'environment', variable } }
    }
  }
}

function* flagsOf(flags: readonly OptionFlag[], entries: readonly OptionEntry[]): Iterable<WrittenOption> {
  for (const { flag, option, text } of flags) {
    const entry = entries.find(({ path }) => path === option)
    if (entry === undefined) throw new RangeError(`${flag} sets ${option}, which is no option`)
    yield { entry, written: text, origin: { kind: 'flag', flag } }
  }
}

/** Messages do not show the user name and password of a URL. */
function quote(written: unknown): string {
  return JSON.stringify(written).replace(/\/\/[^/@]*@/g, '//…@')
}

/** Builds the tree of the schema from values by path. */
function assemble(entries: readonly OptionEntry[], values: ReadonlyMap<string, unknown>): Options {
  const root: { [name: string]: unknown } = {}
  for (const { path, steps } of entries) {
    let level = root
    for (const step of steps.slice(0, -1)) {
      level[step] ??= {}
      level = level[step] as { [name: string]: unknown }
    }
    if (values.has(path)) level[steps.at(-1) as string] = values.get(path)
  }
  return root as unknown as Options
}

/** Options that are valid alone and contradict each other. */
function contradictions(options: Options, origins: LoadedOptions['origins']): OptionProblem[] {
  const { listen, listeners, api, upstream, upstream_ca, policy, policy_tests } = options
  const found: OptionProblem[] = []
  const add = (severity: 'error' | 'warning', option: string, message: string) => {
    found.push({ severity, option, message, origin: origins.get(option) ?? { kind: 'default' } })
  }
  const origin = (option: string) => formatOrigin(origins.get(option) ?? { kind: 'default' })
  const same = (a: { host: string; port: number }, b: { host: string; port: number }) =>
    a.port === b.port && a.host === b.host
  if (listen.port !== 0 && same(listen, api.listen)) {
    add('error', 'api.listen', `is the address of listen (${origin('listen')}); give each a port of its own`)
  }
  for (const [index, one] of listeners.entries()) {
    if (one.listen.port === 0) continue
    const where = `listeners[${index}] (${formatAuthority(one.listen.host, one.listen.port)})`
    if (listen.preset !== true && same(one.listen, listen))
      add('error', 'listeners', `${where} is the address of listen (${origin('listen')})`)
    if (same(one.listen, api.listen)) {
      add('error', 'listeners', `${where} is the address of api.listen (${origin('api.listen')})`)
    }
    if (listeners.slice(0, index).some((other) => same(one.listen, other.listen))) {
      add('error', 'listeners', `${where} is the address of another listener`)
    }
  }
  found.push(...agentContradictions(options, origins))
  if (upstream !== undefined && upstream.socket === undefined && same(upstream, listen)) {
    add('error', 'upstream', `is the address of listen (${origin('listen')}): the proxy would forward to itself`)
  }
  if (options.files !== undefined && upstream !== undefined) {
    add('error', 'files', `is given beside upstream (${origin('upstream')}); one of them gets the traffic`)
  }
  if (upstream_ca !== undefined && upstream?.protocol !== 'https') {
    add('error', 'upstream_ca', 'needs an upstream that begins with https://')
  }
  found.push(...hstsContradictions(options, origins))
  if (options.access_log_file !== undefined && options.access_log_syslog !== undefined)
    add('error', 'access_log_syslog', 'is given beside access_log_file; the access log goes to one of them')
  if (options.access_log_fields !== undefined && options.access_log_format !== 'json')
    add('error', 'access_log_fields', 'belongs to access_log_format: json; combined has fields of its own')
  const { otlp } = options
  if (otlp.metrics && otlp.endpoint === undefined && otlp.metrics_endpoint === undefined)
    add('error', 'otlp.metrics', 'needs otlp.endpoint or otlp.metrics_endpoint')
  if (policy !== undefined && upstream === undefined) {
    add('warning', 'policy', 'is used only together with upstream')
  }
  if (policy_tests !== undefined && policy === undefined) add('error', 'policy_tests', 'needs a policy')
  return found
}

const YEAR = 8_760 * 3_600_000

/** Checks HSTS options against the requirements of the preload list (hstspreload.org) and reports options without effect. */
function hstsContradictions({ hsts }: Options, origins: LoadedOptions['origins']): OptionProblem[] {
  const about = (severity: 'error' | 'warning', option: string, message: string): OptionProblem[] => [
    { severity, option, message, origin: origins.get(option) ?? { kind: 'default' } }
  ]
  if (hsts.preload && (!hsts.include_subdomains || hsts.max_age < YEAR)) {
    return about('error', 'hsts.preload', 'needs hsts.include_subdomains: on and hsts.max_age: 8760h or more')
  }
  if (!hsts.include_subdomains || hsts.max_age > 0) return []
  return about('warning', 'hsts.include_subdomains', 'is used only together with hsts.max_age')
}

const EVERYWHERE: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

/** Agents need a port of their own, or a shared TLS listener that separates them from visitors by server name. */
function agentContradictions(options: Options, origins: LoadedOptions['origins']): OptionProblem[] {
  const { agents, listen, listeners, api, dns } = options
  const originOf = (option: string) => origins.get(option) ?? { kind: 'default' as const }
  if (agents === undefined) {
    const idle = (['agents_certificate', 'agents_key', 'agents_tcp_ports'] as const).filter(
      (option) => options[option] !== undefined
    )
    return idle.map((option) => {
      const message = 'is used only together with agents'
      return { severity: 'warning', option, message, origin: originOf(option) }
    })
  }
  const overlaps = (other: ListenAddress) =>
    other.port === agents.port &&
    agents.port !== 0 &&
    (other.host === agents.host || EVERYWHERE.has(other.host) || EVERYWHERE.has(agents.host))
  const others: readonly (readonly [option: string, at: ListenAddress | undefined])[] = [
    ['listen', listen],
    ['api.listen', api.listen],
    ['dns.listen', dns.listen]
  ]
  const taken = others.filter(([, at]) => at !== undefined && overlaps(at))
  const messages = taken.map(
    ([option]) => `is the address of ${option} (${formatOrigin(originOf(option))}); give each a port of its own`
  )
  for (const [index, one] of listeners.entries()) {
    if (!overlaps(one.listen)) continue
    const name = `listeners[${index}] (${formatAuthority(one.listen.host, one.listen.port)})`
    if (one.listen.host !== agents.host) messages.push(`overlaps with ${name}; give both the same host or another port`)
    else if (!one.tls)
      messages.push(`is the address of ${name}, which is without TLS: agents can share only one with it`)
  }
  return messages.map((message) => ({ severity: 'error', option: 'agents', message, origin: originOf('agents') }))
}

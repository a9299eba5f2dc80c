import { createHash, randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { DeclaredRecord } from '../../../control/declared-records.js'
import { controlErrors } from '../../../control/errors.js'
import { testProblems } from '../../../control/policy-tests.js'
import { type Coded, codeOf } from '../../../lib/errors.js'
import type { Span } from '../../../lib/positions.js'
import { Slices } from '../../../lib/slices.js'
import { fileReason } from '../../../lib/system-errors.js'
import { formatPath, type NodePath, type Problem, Reporter, type UnitProblems } from '../../../policy/problems.js'
import { isNull, type MapEntry, type MapNode, nameOf, type TreeNode } from '../../../policy/tree.js'
import { createRecord, readCreate } from '../../../resources/read.js'
import { claimsOf, type Resource } from '../../../resources/resource.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Makers, ResourceRecord } from '../../../schema/field.js'
import type { Target } from '../../../schema/references.js'
import type { At, DeclaredPart, DeclaredServer, NamedPolicy, ReadText, Wanted } from './declared-part.js'
import type { MapForm } from './form.js'
import { siteErrors } from './site-codes.js'
import { type PolicyCarrier, problemsOn, type SiteFileInput } from './site-input.js'
import { type FileLine, type ImportedText, lineWords, SiteText } from './site-text.js'
import { meantKey } from './synonyms.js'

interface TestedPolicy extends PolicyCarrier {
  readonly text: string
}

/** Id of a declared record: it follows from its name, so that counters and sessions outlive a restart. */
export function declaredId({ idPrefix }: Pick<Target, 'idPrefix'>, name: readonly string[]): string {
  const digest = createHash('sha256').update(JSON.stringify(['site file', ...name]))
  return `${idPrefix}_${digest.digest('hex').slice(0, 27)}`
}

/** Names in messages of files that affect a policy. */
const POLICY = 'the policy'
/** Name in messages of files that affect a policy's tests. */
const TESTS = 'the tests'

/** Result of reading a site file so far, or one entry of it: its records and all problems. */
export class Declaration {
  readonly input: SiteFileInput
  /** All records, those of entries that were read by themselves included. */
  readonly records: DeclaredRecord[] = []
  /** Servers of backends, those of entries included. */
  readonly servers: DeclaredServer[] = []
  /** Records that are not those of such entries. */
  readonly own: DeclaredRecord[] = []
  readonly byId = new Map<string, DeclaredRecord>()
  readonly claims = new Map<string, DeclaredRecord>()
  /** Absolute paths of the named files, in order. */
  readonly files = new Set<string>()
  /** Lines of policies within the site file, by the id of their owner. */
  readonly policyLines = new Map<string, number>()
  /** Names of policies in messages, by the id of their owner. */
  readonly policyNames = new Map<string, string>()
  /** By their names. */
  readonly policies = new Map<string, NamedPolicy>()
  /** Places under `sites` and `tcp` that have a policy. */
  readonly policed = new Set<string>()
  /** Places that may have a policy and have none. */
  readonly unpoliced: string[] = []
  /** Texts of policies and tests that were read from files. */
  readonly texts: ReadText[] = []
  /** True if the result depends on more than the text, these files and the surrounding entries. */
  volatile = false
  lenientPaths: boolean
  readonly #parent: Declaration | undefined
  readonly #parts: DeclaredPart[] = []
  readonly source: SiteText
  readonly #report: Reporter
  readonly #documents = new Map<string, UnitProblems>()
  /** Problems of policies and tests within the file. */
  readonly #placed: Problem[] = []
  readonly #texts: Map<string, { readonly name: string; readonly reading: Promise<string> }>
  readonly slices: Slices

  /** `imports`: parts of the text that come from other files. */
  constructor(input: SiteFileInput, parent?: Declaration, first = 1, imports: readonly ImportedText[] = []) {
    this.input = input
    this.#parent = parent
    this.lenientPaths = parent?.lenientPaths ?? false
    this.slices = parent?.slices ?? input.slices ?? new Slices()
    this.#texts = parent === undefined ? new Map() : parent.#texts
    this.source = new SiteText(input.text, first, imports)
    this.#report = new Reporter(this.source)
  }

  /** Starts reading one entry separately: `text` has its lines, the first of which has the number `first`. */
  entry(text: string, first: number): Declaration {
    return new Declaration({ ...this.input, text }, this, first)
  }

  /** Returns the result so far. */
  part(): DeclaredPart {
    const { records, servers, files, policyLines, policyNames, policies, policed, unpoliced, texts, volatile } = this
    const problems = [...this.#report.problems, ...this.#placed]
    const read = { records, servers, files, policyLines, policyNames, policies, policed, unpoliced, texts, volatile }
    return { ...read, problems, documents: this.#documents, failed: this.failed }
  }

  /** Adds the result of an entry. Returns false, without changes, if one of its claims is taken. */
  take(part: DeclaredPart): boolean {
    for (const { claims } of part.records) for (const claim of claims) if (this.claims.has(claim)) return false
    for (const declared of part.records) this.#keep(declared)
    for (const server of part.servers) this.servers.push(server)
    if (part.files.size > 0) for (const path of part.files) this.files.add(path)
    if (part.policed.size > 0) for (const place of part.policed) this.policed.add(place)
    if (part.documents.size > 0) for (const [key, found] of part.documents) this.#documents.set(key, found)
    if (part.problems.length > 0) this.#report.take(part.problems)
    this.#parts.push(part)
    return true
  }

  /** Policies by their names, those of entries included. */
  allPolicies(): NamedPolicy[] {
    const all = new Map<string, NamedPolicy>()
    for (const { policies } of [...this.#parts, this]) {
      for (const [name, policy] of policies) if (!all.has(name)) all.set(name, policy)
    }
    return [...all.values()]
  }

  /** Returns the names of policies by the ids of their owners, including those of entries. */
  allPolicyNames(): Map<string, string> {
    return new Map([...this.#parts, this].flatMap(({ policyNames }) => [...policyNames]))
  }

  /** Returns the name of the owner's policy in messages. */
  sourceOf(owner: string): string | undefined {
    const line = this.policyLines.get(owner)
    if (line === undefined) return this.policyNames.get(owner)
    const at = this.source.located(line)
    return `${at.file ?? this.input.source}:${at.line}`
  }

  /** Returns the problems of the file, then those of the policies that it names, without empty lists. */
  problems(): UnitProblems[] {
    const problems = [...this.#report.sorted(), ...this.#placed]
    problems.sort((a, b) => a.line - b.line || a.column - b.column)
    return [...this.source.grouped(problems, this.input.source), ...this.#documents.values()].filter(
      ({ problems }) => problems.length > 0
    )
  }

  get failed(): boolean {
    return this.problems().some(({ problems }) => problems.some(({ severity }) => severity === 'error'))
  }

  error({ path, span }: At, error: Coded, message: string): void {
    this.#report.error(path, error, message, span)
  }

  warning({ path, span }: At, error: Coded, message: string): void {
    this.#report.warning(path, error, message, span)
  }

  /** Notes a server of a backend by its `host:port`. */
  addServer({ path, span }: At, address: string): void {
    const finding = { path, error: siteErrors.BACKEND_LOOP, message: '', span }
    this.servers.push({ address, loop: this.#report.problem('warning', finding) })
  }

  /** Reports a problem with a known position. */
  report(problem: Problem): void {
    this.#report.take([problem])
  }

  /** Returns a lazy SHA-256 of the file and all files that it names, independent of its folder. All these files have been read. */
  async digest(): Promise<() => string> {
    const files = await Promise.all([...this.#texts.values()].map(async ({ name, reading }) => [name, await reading]))
    const { text } = this.input
    let digest: string | undefined
    return () => {
      files.sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
      digest ??= createHash('sha256')
        .update(JSON.stringify([text, files]))
        .digest('hex')
      return digest
    }
  }

  lineAt(span: Span): FileLine {
    return this.source.lineAt(span)
  }

  /** Returns the entries of a map; reports any other value. `what`: its kind with article. */
  entries(node: TreeNode, path: NodePath, what: string): readonly MapEntry[] {
    if (node.kind === 'map') return node.entries
    if (node.kind !== 'broken')
      this.error({ path, span: node.span }, fieldErrors.FIELD_INVALID, `${what} must be a map, not ${nameOf(node)}`)
    return []
  }

  /** The entries of a map by their keys; a key that is not known is reported. */
  fields(node: TreeNode, path: NodePath, { what, fields }: MapForm): ReadonlyMap<string, MapEntry> {
    const known = Object.keys(fields)
    const found = new Map<string, MapEntry>()
    for (const entry of this.entries(node, path, what)) {
      if (known.includes(entry.key)) found.set(entry.key, entry)
      else {
        const message = `${what} has no "${entry.key}"${meantKey(entry.key, known)}; it has ${known.join(', ')}`
        this.error({ path: [...path, entry.key], span: entry.keySpan }, fieldErrors.FIELD_UNKNOWN, message)
      }
    }
    return found
  }

  /** The items of a list; another value is reported. */
  items(node: TreeNode, path: NodePath, what: string): readonly TreeNode[] {
    if (node.kind === 'list') return node.items
    if (node.kind !== 'broken')
      this.error({ path, span: node.span }, fieldErrors.FIELD_INVALID, `${what} must be a list, not ${nameOf(node)}`)
    return []
  }

  /** A text that is not empty; undefined after a report. */
  text(node: TreeNode, path: NodePath, what: string): string | undefined {
    if (node.kind === 'scalar' && typeof node.value === 'string' && node.value !== '') return node.value
    if (node.kind !== 'broken')
      this.error({ path, span: node.span }, fieldErrors.FIELD_INVALID, `${what} must be a text, not ${nameOf(node)}`)
    return undefined
  }

  /** The text of the file that a value names; undefined after a report. `what`: its content, with article. */
  async fileAt(node: TreeNode, path: NodePath, what: string): Promise<string | undefined> {
    const name = this.text(node, path, `the file of ${what}`)
    return name && (await this.file(name, { path, span: node.span }, what))
  }

  /** The text of a file that the site file names, which is watched from now on; undefined after a report. */
  async file(written: string, at: At, what: string): Promise<string | undefined> {
    const name = this.source.named(written, at.span)
    if (what !== POLICY && what !== TESTS) this.volatile = true
    try {
      const text = await this.textOf(name)
      this.texts.push({ name, text })
      return text
    } catch (error) {
      const code = codeOf(error)
      if (code === undefined) throw error
      this.error(at, siteErrors.FILE_UNREADABLE, `${what} "${name}" cannot be read: ${fileReason(code)}`)
      return undefined
    }
  }

  /** The text of a file, which is read once; rejects with the system's error. */
  textOf(name: string): Promise<string> {
    const path = resolve(this.input.folder, name)
    this.files.add(path)
    let found = this.#texts.get(path)
    if (found === undefined) {
      found = { name, reading: this.input.readFile(path, name) }
      this.#texts.set(path, found)
    }
    return found.reading
  }

  /** Returns the text of a policy, from the named file or within the site file; undefined after a report or for `none`. */
  async policy(node: TreeNode, path: NodePath, owner: string, carrier: PolicyCarrier): Promise<string | undefined> {
    if (isNull(node)) {
      const message = 'names no policy; write "policy: none" where there is to be none'
      this.error({ path, span: node.span }, siteErrors.POLICY_MISSING, message)
      return undefined
    }
    if (node.kind === 'map') return await this.#writtenPolicy(node, path, owner, carrier)
    const written = this.text(node, path, 'policy')
    if (written === undefined || written === 'none') return undefined
    const name = this.source.named(written, node.span)
    const text = await this.file(written, { path, span: node.span }, POLICY)
    if (text === undefined) return undefined
    this.policyNames.set(owner, name)
    if (!this.policies.has(name)) this.policies.set(name, { name, ...this.lineAt(node.span), text })
    const key = `${carrier.layer} ${carrier.isStrict} ${name}`
    if (!this.#documents.has(key)) {
      const problems = await this.slices.run(problemsOn(carrier, text, this.input))
      this.#documents.set(key, { key, source: name, text, problems })
    }
    return text
  }

  /**
   * The tests of a policy, from a file or in place, which are run; undefined after a report about their form. Those of a policy that
   * does not compile are not run.
   */
  async policyTests(node: TreeNode, path: NodePath, policy: TestedPolicy): Promise<string | undefined> {
    if (node.kind === 'map') {
      const { text, line, place } = this.#written(node, path)
      for (const problem of await this.#tested(policy, text)) this.#placed.push(place(problem))
      this.policies.set(formatPath(path), { name: formatPath(path), ...this.source.located(line), text })
      return text
    }
    const written = this.text(node, path, 'policy_tests')
    if (written === undefined) return undefined
    const name = this.source.named(written, node.span)
    const text = await this.file(written, { path, span: node.span }, TESTS)
    if (text === undefined) return undefined
    if (!this.policies.has(name)) this.policies.set(name, { name, ...this.lineAt(node.span), text })
    const problems = await this.#tested(policy, text)
    const key = `tests ${name} ${formatPath(path)}`
    if (problems.length > 0) this.#documents.set(key, { key, source: name, text, problems })
    return text
  }

  async #tested({ text: policy, ...carrier }: TestedPolicy, tests: string): Promise<Problem[]> {
    const { testPolicy } = this.input
    if (testPolicy === undefined) return []
    const problems = await this.slices.run(problemsOn(carrier, policy, this.input))
    if (problems.some(({ severity }) => severity === 'error')) return []
    return testProblems(await testPolicy({ policy, tests }))
  }

  /** Returns a document within the site file, with a conversion of its positions. */
  #written({ span }: MapNode, path: NodePath) {
    const { line, column } = this.source.place(span.start)
    const written = this.input.text.slice(span.start, span.end)
    const block = !written.startsWith('{')
    const indent = ' '.repeat(column - 1)
    const text = block ? written.replaceAll(`\n${indent}`, '\n') : written
    const place = (problem: Problem): Problem => ({
      ...problem,
      path: `${formatPath(path)}${problem.path === '' ? '' : `.${problem.path}`}`,
      line: line + problem.line - 1,
      column: problem.column + (block || problem.line === 1 ? indent.length : 0)
    })
    return { text, line, place }
  }

  /** Reads a policy within the site file, and converts the positions of its problems. */
  async #writtenPolicy(node: MapNode, path: NodePath, owner: string, carrier: PolicyCarrier): Promise<string> {
    const { text, line, place } = this.#written(node, path)
    for (const problem of await this.slices.run(problemsOn(carrier, text, this.input)))
      this.#placed.push(place(problem))
    this.policyLines.set(owner, line)
    const name = formatPath(path)
    this.policyNames.set(owner, name)
    this.policies.set(name, { name, ...this.source.located(line), text })
    return text
  }

  /** Reads a record by the declaration of its resource; undefined after a report. */
  async add(resource: Resource, wanted: Wanted): Promise<ResourceRecord | undefined> {
    const { name, body, parents = {}, at, label } = wanted
    // Policies are compiled from their own files, with their places there.
    const options = { checkPolicy: () => undefined, checkFolder: this.input.checkFolder, path: parents }
    const read = readCreate(resource, body, options)
    const written = read.ok ? await createRecord(resource, read.input, this.#makers(resource, name)) : read
    if (!written.ok) {
      for (const { field, code, message } of written.problems) this.#refuse(wanted, field, code, message)
      return undefined
    }
    const claims = claimsOf(resource, written.record)
    const keys = claims.map(({ space, value }) => `${space} ${value}`)
    const key = `${resource.name} ${written.record.id}`
    const declared = { resource, record: written.record, label, name, ...this.lineAt(at.span), key, claims: keys }
    const taken = claims.find(({ space, value }) => this.#keeperOf(`${space} ${value}`) !== undefined)
    if (taken !== undefined) {
      const other = this.#keeperOf(`${taken.space} ${taken.value}`)
      const message = `${taken.field} is taken by ${other?.label} ${lineWords(other as DeclaredRecord)}`
      this.error(wanted.locate(taken.field), controlErrors.ALREADY_EXISTS, message)
      return undefined
    }
    this.#keep(declared)
    this.own.push(declared)
    return written.record
  }

  #refuse({ locate, word = (message) => message }: Wanted, field: string, code: string, message: string): void {
    const name = field.split(/[.[]/).findLast((step) => /^[a-z_]+$/.test(step))
    this.error(locate(field), { code }, word(name === undefined ? message : `${name} ${message}`))
  }

  /** Returns the record with this id, of this declaration or an outer one. */
  find(kind: string, id: string): ResourceRecord | undefined {
    return this.byId.get(`${kind} ${id}`)?.record ?? this.#parent?.find(kind, id)
  }

  #keeperOf(claim: string): DeclaredRecord | undefined {
    return this.claims.get(claim) ?? this.#parent?.claims.get(claim)
  }

  #keep(declared: DeclaredRecord): void {
    this.records.push(declared)
    this.byId.set(declared.key, declared)
    for (const claim of declared.claims) this.claims.set(claim, declared)
  }

  #makers(resource: Resource, name: readonly string[]): Makers {
    const { clock, zone } = this.input
    return {
      clock,
      zone,
      principal: '',
      newId: () => declaredId(resource, name),
      random: (bytes) => randomBytes(bytes),
      find: async (kind, id) => this.find(kind, id)
    }
  }
}

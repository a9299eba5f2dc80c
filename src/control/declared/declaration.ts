import { createHash, randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { Clock } from '../../lib/clock.js'
import { type Coded, codeOf, defineErrors } from '../../lib/errors.js'
import { SourceText, type Span } from '../../lib/positions.js'
import { fileReason } from '../../lib/system-errors.js'
import { formatPath, type NodePath, type Problem, Reporter, type UnitProblems } from '../../policy/problems.js'
import { isNull, type MapEntry, type MapNode, nameOf, type TreeNode } from '../../policy/tree.js'
import { createRecord, readCreate } from '../../resources/read.js'
import { claimsOf, type Resource } from '../../resources/resource.js'
import { fieldErrors } from '../../schema/errors.js'
import type { Makers, ResourceRecord } from '../../schema/field.js'
import type { Target } from '../../schema/references.js'
import { controlErrors } from '../errors.js'
import { type PolicyTesting, testProblems } from '../policy-tests.js'
import { meantKey } from './synonyms.js'

/** Codes of problems in a site file; problems of its fields have those of the management API. */
export const siteErrors = defineErrors({
  NAME_UNKNOWN: {
    text: 'The file names something that it does not declare.',
    help: 'Correct the name, or declare what it names; the message suggests one.'
  },
  FILE_UNREADABLE: {
    text: 'A file that the site file names cannot be read.',
    help: 'Correct the path, which is relative to the site file, or let the user of the process read the file.'
  },
  POLICY_MISSING: {
    text: 'A policy is empty or no longer named where one runs; nothing was opened.',
    help: 'Write the policy again, or "policy: none" where there is to be none.'
  },
  PORT_CLASH: { text: 'Two listeners or TCP edges need the same port.', help: 'Give one of them another port.' },
  BACKEND_LOOP: { text: 'A server of a backend is a listener of the process.', help: 'Correct its address.' },
  SECRET_LITERAL: {
    text: 'A secret stands in the file itself.',
    help: 'Name where it is: { env: NAME }, { file: PATH } or { vault: vault/name }.'
  },
  SECRET_MISSING: {
    text: 'What a secret refers to is not there.',
    help: 'Set the environment variable, or correct the name of the secret.'
  },
  CERTIFICATE_EXPIRED: { text: 'A certificate is past its end.', help: 'Renew it.' },
  CERTIFICATE_EARLY: {
    text: 'A certificate is not valid yet.',
    help: 'Look at the clock of the machine, or wait until the certificate begins.'
  },
  CERTIFICATE_NONE: {
    text: 'Clients reach a site by TLS, and there is no certificate for it.',
    help: 'Write acme: { agree_to_terms: true }, list a certificate that covers the name, or say "certificate: none" for the site.'
  },
  NOT_BUILT: {
    text: 'The file asks for something that this version does not have.',
    help: 'Remove it; the message says what to use instead.'
  }
})

/** Everything that is wrong, or doubtful, with a policy document in the layer where it will run. */
export type PolicyProblems = (text: string, layer: 'http' | 'tcp') => readonly Problem[]

/** A listener, or what would be one. */
type ReadListener = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly refused: string }

/** What reading a site file needs from outside. */
export interface SiteFileInput {
  /** The file as messages name it. */
  readonly source: string
  /** Relative paths in it start here. */
  readonly folder: string
  readonly text: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Text of a file by its absolute path, or by its name as the file has it; rejects with the system's error. */
  readonly readFile: (path: string, name: string) => Promise<string>
  readonly policyProblems: PolicyProblems
  /** Runs the tests that stand beside policies; absent: they are only read. */
  readonly testPolicy?: PolicyTesting
  /** Reads a listener as the option `listeners` has them. */
  readonly readListener: (written: unknown) => ReadListener
  /** Addresses that the options open already, such as `127.0.0.1:8080`, with the names of the options. */
  readonly opened: ReadonlyMap<string, string>
  readonly clock: Clock
  /**
   * Of this process: equal secrets have equal versions under it, and a version tells nothing of its secret. See
   * `newVersionKey`.
   */
  readonly versionKey: Uint8Array
  /** Zone of the names that the service makes. */
  readonly zone: string
  /** Is a certificate that has expired an error? Where it is none, a start serves it and warns. */
  readonly refuseExpired: boolean
  /** Of the options: are the terms of an authority agreed to, and is there a listener with TLS? Absent: neither. */
  readonly process?: { readonly agreed: boolean; readonly tls: boolean }
  /** Places under `sites` and `tcp` that have a policy now: none of them may lose it without saying `policy: none`. */
  readonly policed: ReadonlySet<string>
}

/** Key of the problems of a site file itself; policies that it names have their own. */
export const SITE_FILE = 'site-file'

/** Where something stands in the file. */
export interface At {
  readonly path: NodePath
  readonly span: Span
}

/** A record that the file means, with the name that people know it by and its line. */
export interface DeclaredRecord {
  readonly resource: Resource
  readonly record: ResourceRecord
  /** `site shop.example.com`, `backend web`: what a change of the record is a change of. */
  readonly label: string
  /** See `Wanted.name`. */
  readonly name: readonly string[]
  /** Line in the file, from 1. */
  readonly line: number
}

interface TestedPolicy {
  readonly text: string
  readonly layer: 'http' | 'tcp'
}

/** A policy, or the tests of one, that the site file names, or that stands in it. */
export interface NamedPolicy {
  /** The name of its file, or its path in the site file. */
  readonly name: string
  /** Where it is named first, or stands. */
  readonly line: number
  readonly text: string
}

/** A record as the file asks for it. */
export interface Wanted {
  readonly label: string
  /** What tells it from the other records of its kind: its id follows from it. */
  readonly name: readonly string[]
  /** As a request of the API. */
  readonly body: Readonly<Record<string, unknown>>
  /** Parameters of the path: ids of parents. */
  readonly parents?: Readonly<Record<string, string>>
  readonly at: At
  /** The place of a field of the request, as problems name it. */
  readonly locate: (field: string) => At
  /** A message in the words of the file. */
  readonly word?: (message: string) => string
}

/** Id of a declared record: it follows from its name, so that counters and sessions outlive a restart. */
export function declaredId({ idPrefix }: Pick<Target, 'idPrefix'>, name: readonly string[]): string {
  const digest = createHash('sha256').update(JSON.stringify(['site file', ...name]))
  return `${idPrefix}_${digest.digest('hex').slice(0, 27)}`
}

/** What has been read of a site file so far: its records and everything that is wrong. */
export class Declaration {
  readonly input: SiteFileInput
  readonly records: DeclaredRecord[] = []
  /** Addresses of servers, `host:port`, and where they stand. */
  readonly servers: { readonly at: At; readonly address: string }[] = []
  /** Absolute paths of what it names, in their order. */
  readonly files = new Set<string>()
  /** Policies by the id of their owner: what messages call them. */
  readonly policySources = new Map<string, string>()
  /** Policies by the id of their owner: what the file calls them. */
  readonly policyNames = new Map<string, string>()
  /** By their names. */
  readonly policies = new Map<string, NamedPolicy>()
  /** Places under `sites` and `tcp` that have a policy. */
  readonly policed = new Set<string>()
  readonly #source: SourceText
  readonly #report: Reporter
  readonly #documents = new Map<string, UnitProblems>()
  /** Of policies and tests that stand in the file itself. */
  readonly #placed: Problem[] = []
  readonly #texts = new Map<string, { readonly name: string; readonly reading: Promise<string> }>()
  readonly #claims = new Map<string, DeclaredRecord>()

  constructor(input: SiteFileInput) {
    this.input = input
    this.#source = new SourceText(input.text)
    this.#report = new Reporter(this.#source)
  }

  /** Of the file, then of the policies that it names; those without a problem are left out. */
  problems(): UnitProblems[] {
    const { source, text } = this.input
    const problems = [...this.#report.sorted(), ...this.#placed]
    problems.sort((a, b) => a.line - b.line || a.column - b.column)
    const own = { key: SITE_FILE, source, text, problems }
    return [own, ...this.#documents.values()].filter(({ problems }) => problems.length > 0)
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

  /** SHA-256 of the file with everything that it names: the same wherever it lies. Every file that it names has been read. */
  async digest(): Promise<string> {
    const files = await Promise.all([...this.#texts.values()].map(async ({ name, reading }) => [name, await reading]))
    files.sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
    return createHash('sha256')
      .update(JSON.stringify([this.input.text, files]))
      .digest('hex')
  }

  lineOf(span: Span): number {
    return this.#source.place(span.start).line
  }

  /** The entries of a map; another value is reported. `what`: with its article. */
  entries(node: TreeNode, path: NodePath, what: string): readonly MapEntry[] {
    if (node.kind === 'map') return node.entries
    if (node.kind !== 'broken')
      this.error({ path, span: node.span }, fieldErrors.FIELD_INVALID, `${what} must be a map, not ${nameOf(node)}`)
    return []
  }

  /** The entries of a map by their keys; a key that is not known is reported. */
  fields(node: TreeNode, path: NodePath, what: string, known: readonly string[]): ReadonlyMap<string, MapEntry> {
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

  /** The text of a file that the site file names, which is watched from now on; undefined after a report. */
  async file(name: string, at: At, what: string): Promise<string | undefined> {
    const path = resolve(this.input.folder, name)
    this.files.add(path)
    let found = this.#texts.get(path)
    if (found === undefined) {
      found = { name, reading: this.input.readFile(path, name) }
      this.#texts.set(path, found)
    }
    try {
      return await found.reading
    } catch (error) {
      const code = codeOf(error)
      if (code === undefined) throw error
      this.error(at, siteErrors.FILE_UNREADABLE, `${what} "${name}" cannot be read: ${fileReason(code)}`)
      return undefined
    }
  }

  /** The text of a policy: of the file that the node names, or of what stands there itself; undefined after a report or for `none`. */
  async policy(node: TreeNode, path: NodePath, owner: string, layer: 'http' | 'tcp'): Promise<string | undefined> {
    if (isNull(node)) {
      const message = 'names no policy; write "policy: none" where there is to be none'
      this.error({ path, span: node.span }, siteErrors.POLICY_MISSING, message)
      return undefined
    }
    if (node.kind === 'map') return this.#writtenPolicy(node, path, owner, layer)
    const name = this.text(node, path, 'policy')
    if (name === undefined || name === 'none') return undefined
    const text = await this.file(name, { path, span: node.span }, 'the policy')
    if (text === undefined) return undefined
    this.policySources.set(owner, name)
    this.policyNames.set(owner, name)
    if (!this.policies.has(name)) this.policies.set(name, { name, line: this.lineOf(node.span), text })
    const key = `${layer} ${name}`
    if (!this.#documents.has(key)) {
      this.#documents.set(key, { key, source: name, text, problems: this.input.policyProblems(text, layer) })
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
      this.policies.set(formatPath(path), { name: formatPath(path), line, text })
      return text
    }
    const name = this.text(node, path, 'policy_tests')
    if (name === undefined) return undefined
    const text = await this.file(name, { path, span: node.span }, 'the tests')
    if (text === undefined) return undefined
    if (!this.policies.has(name)) this.policies.set(name, { name, line: this.lineOf(node.span), text })
    const problems = await this.#tested(policy, text)
    const key = `tests ${name} ${formatPath(path)}`
    if (problems.length > 0) this.#documents.set(key, { key, source: name, text, problems })
    return text
  }

  async #tested({ text: policy, layer }: TestedPolicy, tests: string): Promise<Problem[]> {
    const { testPolicy, policyProblems } = this.input
    if (testPolicy === undefined || policyProblems(policy, layer).some(({ severity }) => severity === 'error'))
      return []
    return testProblems(await testPolicy({ policy, tests }))
  }

  /** A document that stands in the site file, and where its problems have their places there. */
  #written({ span }: MapNode, path: NodePath) {
    const { line, column } = this.#source.place(span.start)
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

  /** A policy that stands in the site file: its problems have their places there. */
  #writtenPolicy(node: MapNode, path: NodePath, owner: string, layer: 'http' | 'tcp'): string {
    const { text, line, place } = this.#written(node, path)
    for (const problem of this.input.policyProblems(text, layer)) this.#placed.push(place(problem))
    this.policySources.set(owner, `${this.input.source}:${line}`)
    const name = formatPath(path)
    this.policyNames.set(owner, name)
    this.policies.set(name, { name, line, text })
    return text
  }

  /** Reads a record by the declaration of its resource; undefined after a report. */
  async add(resource: Resource, wanted: Wanted): Promise<ResourceRecord | undefined> {
    const { name, body, parents = {}, at, label } = wanted
    // Policies are compiled from their own files, with their places there.
    const read = readCreate(resource, body, { checkPolicy: () => undefined, path: parents })
    const written = read.ok ? await createRecord(resource, read.input, this.#makers(resource, name)) : read
    if (!written.ok) {
      for (const { field, code, message } of written.problems) this.#refuse(wanted, field, code, message)
      return undefined
    }
    const declared = { resource, record: written.record, label, name, line: this.lineOf(at.span) }
    if (!this.#claim(declared, wanted)) return undefined
    this.records.push(declared)
    return written.record
  }

  #refuse({ locate, word = (message) => message }: Wanted, field: string, code: string, message: string): void {
    const name = field.split(/[.[]/).findLast((step) => /^[a-z_]+$/.test(step))
    this.error(locate(field), { code }, word(name === undefined ? message : `${name} ${message}`))
  }

  #claim(declared: DeclaredRecord, { locate }: Wanted): boolean {
    const claims = claimsOf(declared.resource, declared.record)
    const taken = claims.find(({ space, value }) => this.#claims.has(`${space} ${value}`))
    if (taken === undefined) {
      for (const { space, value } of claims) this.#claims.set(`${space} ${value}`, declared)
      return true
    }
    const other = this.#claims.get(`${taken.space} ${taken.value}`)
    const message = `${taken.field} is taken by ${other?.label} in line ${other?.line}`
    this.error(locate(taken.field), controlErrors.ALREADY_EXISTS, message)
    return false
  }

  #makers(resource: Resource, name: readonly string[]): Makers {
    const { clock, zone } = this.input
    return {
      clock,
      zone,
      principal: '',
      newId: () => declaredId(resource, name),
      random: (bytes) => randomBytes(bytes),
      find: async (kind, id) => this.records.find(({ record }) => record.kind === kind && record.id === id)?.record
    }
  }
}

import { basename, dirname, extname } from 'node:path'
import { compilePathPattern } from '../../lib/cache-control.js'
import type { FileCoding, FileUpstream } from '../../runtime/answering-upstreams.js'
import { chooseCoding, prepareConditions } from './conditions.js'
import { FileBody } from './file-body.js'
import { type FileFacts, type Folder, isSame } from './folder.js'
import type { OpenFiles } from './open-files.js'

/** Maximum size of files kept in memory (bytes). */
const SMALL_FILE = 64 * 1024
/** Content codings by file suffix. */
const CODINGS: Readonly<Record<FileCoding, string>> = { zst: 'zstd', br: 'br', gz: 'gzip' }

/** File in one content coding. */
interface Representation {
  /** Content coding; empty for the plain file. */
  readonly coding: string
  /** Path for the package. */
  readonly path: string
  readonly facts: FileFacts
  /** Fields of a 200 response: name, value, name, value… */
  readonly headers: readonly string[]
  readonly tag: string
  readonly modified: string
  /** Complete content of a small file. */
  readonly whole: Uint8Array | undefined
}

/** Response for a file. `changed`: the file changed and must be looked up again. */
export type FileAnswer =
  | { readonly status: number; readonly headers: readonly string[]; readonly body: FileBody }
  | 'changed'

/** Decision of the package `@fastify/send`. */
type Decision = Awaited<ReturnType<typeof import('@fastify/send')['default']>>

/**
 * Lets the package decide status and fields, as for HEAD, so that it opens no file; Sluice sends the bytes of the file that it verified.
 * Loaded for the first file, so that a start without files does not need it.
 */
async function decide(path: string, headers: Readonly<Record<string, string>>): Promise<Decision> {
  const { default: send } = await import('@fastify/send')
  const request = { method: 'HEAD', headers } as unknown as Parameters<typeof send>[0]
  const options = { root: dirname(path), dotfiles: 'allow', index: false, cacheControl: false } as const
  return await send(request, `/${encodeURIComponent(basename(path))}`, options)
}

/** Returns the Cache-Control of a unit's files by path pattern. */
export function cacheControlOf({ cache = [] }: Pick<FileUpstream, 'cache'>): (path: string) => string | undefined {
  const rules = cache.map(({ files, value }) => ({ pattern: compilePathPattern(files), value }))
  return (path) => rules.find(({ pattern }) => pattern?.test(`/${path}`))?.value
}

interface LoadParts {
  readonly folder: Folder
  readonly files: OpenFiles
  readonly precompressed: readonly FileCoding[]
  readonly cacheControl: (path: string) => string | undefined
  /** Previous state of the file; unchanged parts are reused. */
  readonly before: ServedFile | undefined
}

/** Served file: the plain form and the compressed ones beside it. */
export class ServedFile {
  readonly #plain: Representation
  readonly #coded: readonly Representation[]
  readonly #codings: readonly string[]

  private constructor(plain: Representation, coded: readonly Representation[]) {
    this.#plain = plain
    this.#coded = coded
    this.#codings = coded.map(({ coding }) => coding)
  }

  /** Loads the file found at `path`, relative to the folder; undefined if it changed meanwhile. */
  static async load(path: string, facts: FileFacts, parts: LoadParts): Promise<ServedFile | undefined> {
    const { folder, precompressed, before } = parts
    const cacheControl = parts.cacheControl(path)
    const found: [coding: FileCoding, facts: FileFacts][] = []
    for (const coding of precompressed) {
      const one = await folder.look(`${path}.${coding}`)
      if (one.kind === 'file') found.push([coding, one])
    }
    const fields = [
      ...(cacheControl === undefined ? [] : ['Cache-Control', cacheControl]),
      ...(found.length === 0 ? [] : ['Vary', 'Accept-Encoding'])
    ]
    // Vary depends on the existence of another form.
    const varies = before !== undefined && before.#coded.length > 0
    const known = before === undefined || varies !== found.length > 0 ? [] : [before.#plain, ...before.#coded]
    const representationOf = async (coding: string, name: string, one: FileFacts, type?: string) =>
      known.find((other) => other.coding === coding && isSame(other.facts, one)) ??
      (await represent(coding, `${folder.root}/${name}`, one, { files: parts.files, fields, type }))
    const plain = await representationOf('', path, facts)
    if (plain === undefined) return undefined
    const coded: Representation[] = []
    for (const [coding, one] of found) {
      const type = plain.headers[plain.headers.indexOf('Content-Type') + 1]
      const made = await representationOf(CODINGS[coding], `${path}.${coding}`, one, type)
      if (made === undefined) return undefined
      coded.push(made)
    }
    return new ServedFile(plain, coded)
  }

  /** Bytes kept in memory. */
  get bytes(): number {
    return [this.#plain, ...this.#coded].reduce((sum, { whole }) => sum + (whole?.length ?? 0), 0)
  }

  /** Returns the response to a request without conditions and range from memory; undefined if the file is not small. */
  whole(accepted: string | undefined): Exclude<FileAnswer, 'changed'> | undefined {
    const { headers, whole } = this.#chosen(accepted)
    if (whole === undefined) return undefined
    return { status: 200, headers, body: new FileBody({ kind: 'length', bytes: whole.length }, { whole }) }
  }

  /** Returns the response for the given conditions and range. */
  async answer(
    method: string,
    accepted: string | undefined,
    fields: Readonly<Record<string, string>>,
    files: OpenFiles
  ): Promise<FileAnswer> {
    const one = this.#chosen(accepted)
    const { facts, path, tag, modified, headers } = one
    const conditions = prepareConditions(method, fields, { size: facts.size, tag, modified })
    if (conditions === undefined)
      return await part(one, method, { status: 200, headers, from: 0, to: facts.size }, files)
    const decision = await decide(path, conditions)
    const { statusCode: status, headers: decided } = decision
    if (decision.type !== 'error' && !isOf(facts, decision)) return 'changed'
    if (status === 200) return await part(one, method, { status, headers, from: 0, to: facts.size }, files)
    const range = String(decided['Content-Range'] ?? '')
    if (status === 206) {
      const [, from = '0', to = '0'] = /^bytes (\d+)-(\d+)\//.exec(range) ?? []
      const ranged = [...headers, 'Content-Range', range]
      return await part(one, method, { status, headers: ranged, from: Number(from), to: Number(to) + 1 }, files)
    }
    if (status === 304) return { status, headers: withoutContent(headers), body: new FileBody({ kind: 'none' }) }
    // 412 and 416.
    return textAnswer(status, range === '' ? [] : ['Content-Range', range])
  }

  #chosen(accepted: string | undefined): Representation {
    if (accepted === undefined || this.#codings.length === 0) return this.#plain
    const coding = chooseCoding(accepted, this.#codings)
    return this.#coded.find((one) => one.coding === coding) ?? this.#plain
  }
}

interface Sent {
  readonly status: number
  readonly headers: readonly string[]
  readonly from: number
  readonly to: number
}

/** Returns the bytes `from` to `to` (exclusive) of the file. */
async function part(
  { facts, whole }: Representation,
  method: string,
  { status, headers, from, to }: Sent,
  files: OpenFiles
): Promise<FileAnswer> {
  const framing = { kind: 'length', bytes: to - from } as const
  if (method === 'HEAD') return { status, headers, body: new FileBody(framing) }
  if (whole !== undefined) return { status, headers, body: new FileBody(framing, { whole: whole.subarray(from, to) }) }
  const file = await files.take(facts)
  if (file === undefined) return 'changed'
  return { status, headers, body: new FileBody(framing, { part: { file, from, to, slab: () => files.slab } }) }
}

async function represent(
  coding: string,
  path: string,
  facts: FileFacts,
  { files, fields, type }: { files: OpenFiles; fields: readonly string[]; type: string | undefined }
): Promise<Representation | undefined> {
  const decision = await decide(path, {})
  if (decision.type !== 'file' || !isOf(facts, decision)) return undefined
  const { ETag: weak, 'Last-Modified': modified = '', ...rest } = decision.headers as Record<string, string>
  // Size and time in milliseconds are as strong a validator as that of other servers.
  const tag = String(weak).replace(/^W\//, '')
  const headers = ['ETag', tag, 'Last-Modified', modified, 'Accept-Ranges', 'bytes']
  headers.push('Content-Type', type ?? rest['Content-Type'] ?? 'application/octet-stream')
  if (coding !== '') headers.push('Content-Encoding', coding)
  headers.push(...fields)
  const whole = facts.size <= SMALL_FILE ? await readWhole(facts, files) : undefined
  if (whole === 'changed') return undefined
  return { coding, path, facts, headers, tag, modified, whole }
}

async function readWhole(facts: FileFacts, files: OpenFiles): Promise<Uint8Array | 'changed'> {
  const file = await files.take(facts)
  if (file === undefined) return 'changed'
  if (facts.size === 0) {
    file.release()
    return new Uint8Array(0)
  }
  const body = new FileBody(
    { kind: 'length', bytes: facts.size },
    { part: { file, from: 0, to: facts.size, slab: () => facts.size } }
  )
  try {
    return (await body.buffer(facts.size)) as Uint8Array
  } catch {
    return 'changed'
  }
}

/** Returns true if the package read this file with the same content. */
function isOf({ size, modified, inode }: FileFacts, decision: Exclude<Decision, { type: 'error' }>): boolean {
  if (decision.type !== 'file') return false
  const { stat } = decision.metadata
  return stat.size === size && stat.ino === Number(inode) && Math.floor(stat.mtimeMs) === Number(modified / 1_000_000n)
}

/** Returns the fields of a 304 that a cache may have to update (RFC 9110 15.4.5). */
function withoutContent(headers: readonly string[]): string[] {
  const left: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (!name.startsWith('Content-') && name !== 'Accept-Ranges') left.push(name, headers[i + 1] as string)
  }
  return left
}

const TEXTS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  404: 'Not found',
  405: 'Method not allowed',
  412: 'Precondition failed',
  416: 'Range not satisfiable'
}

/** Returns a response with a line of text, or without content. */
export function textAnswer(status: number, headers: readonly string[] = []): Exclude<FileAnswer, 'changed'> {
  const text = TEXTS[status]
  const whole = Buffer.from(text === undefined ? '' : `${text}\n`)
  const type = text === undefined ? [] : ['Content-Type', 'text/plain; charset=utf-8']
  return {
    status,
    headers: [...type, ...headers],
    body: new FileBody({ kind: 'length', bytes: whole.length }, { whole })
  }
}

/** Suffixes of pages, which may also be URLs of an application. */
const PAGES: readonly string[] = ['', '.html', '.htm']
/** Valid file suffix. */
const ENDING = /^\.[a-z][a-z0-9]{0,9}$/i

/** Returns true if the fallback page of an application may be sent for a missing path; a missing script or image is a 404. */
export function mayFallBack(path: string): boolean {
  const ending = extname(path)
  return PAGES.includes(ending.toLowerCase()) || !ENDING.test(ending)
}

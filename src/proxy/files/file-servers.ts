import { LRUCache } from 'lru-cache'
import type { Failure, RequestHead } from '../../flow/exchange.js'
import { withoutQuery } from '../../flow/target.js'
import type { Clock } from '../../lib/clock.js'
import type { DescriptorShares } from '../../lib/descriptor-shares.js'
import { codeOf } from '../../lib/errors.js'
import { realOrNamed, refusalOfFolder } from '../../lib/named-folders.js'
import type { FileUpstream } from '../../runtime/answering-upstreams.js'
import { type Answer, DialError, type Dialer, type ForwardOptions } from '../../transport/contract.js'
import { readFileFields } from './conditions.js'
import { FileBody } from './file-body.js'
import { type FilePath, readFilePath } from './file-path.js'
import { type FileFacts, Folder } from './folder.js'
import { LISTING_POLICY, listFolder } from './listing.js'
import { OpenFiles } from './open-files.js'
import { cacheControlOf, type FileAnswer, mayFallBack, ServedFile, textAnswer } from './served-file.js'

/** Time for which a file is not checked again (ms). */
const FRESH = 1_000
/** Memory for small files of a thread, and overhead of each (bytes). */
const CACHE = { bytes: 32 * 1024 * 1024, each: 1_024 }
/** Maximum number of checks of a file that keeps changing. */
const LOOKS = 4
/** Value of Allow. */
const METHODS = 'GET, HEAD, OPTIONS'
/** Response for a missing file. */
const NOT_FOUND: NoFile = { kind: 'text', status: 404 }

interface FileServersParts {
  readonly clock: Clock
  /** Absolute paths of the product's own files, which are never served. */
  readonly own: readonly string[]
  /** Absolute folders that contain the folders of confined units. */
  readonly folders: readonly string[]
  /** @default open files are not counted */
  readonly descriptors?: DescriptorShares
}

/** Response for a path without a file: a folder list, a redirect to the path with a slash, or a line of text. */
type NoFile =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'slash' }
  | { readonly kind: 'text'; readonly status: 403 | 404 }

/** File that was found; `path` is relative to the folder. */
interface FoundFile {
  readonly kind: 'file'
  readonly path: string
  readonly facts: FileFacts
}

/** Result of looking up a path. */
type Found = NoFile | { readonly kind: 'file'; readonly file: ServedFile }

/** Cached result for a path with a file. */
interface Known {
  readonly file: ServedFile
  /** Monotonic milliseconds. */
  readonly at: number
}

/** Serves folders of files. Each unit has a dialer that opens no connection. */
export class FileServers {
  readonly #parts: FileServersParts
  readonly #files: OpenFiles
  readonly #known: LRUCache<string, Known>
  #own: readonly string[] | undefined
  #count = 0

  constructor(parts: FileServersParts) {
    this.#parts = parts
    this.#files = new OpenFiles(parts.descriptors)
    this.#known = new LRUCache({
      maxSize: CACHE.bytes,
      sizeCalculation: ({ file }, key) => file.bytes + CACHE.each + key.length
    })
  }

  /** Number of descriptors open for responses. */
  get open(): number {
    return this.#files.size
  }

  dialer(unit: FileUpstream): Dialer {
    const { clock, folders } = this.#parts
    const server = new FileServer(unit, {
      clock,
      files: this.#files,
      known: this.#known,
      prefix: `${++this.#count} `,
      open: async () => {
        const refusal = unit.confined === true ? refusalOfFolder(unit.folder, folders) : undefined
        if (refusal !== undefined) throw new DialError('dial-refused', `the folder ${unit.folder} ${refusal}`)
        this.#own ??= this.#parts.own.map(realOrNamed)
        return await Folder.open({ folder: unit.folder, links: unit.links === true, own: this.#own })
      }
    })
    return {
      key: `file://${unit.folder}`,
      reusable: false,
      answers: ({ signal }, _dialer, options, answered) =>
        server.answers(options, answered, () => signal.aborted !== undefined),
      open: () => Promise.reject(new DialError('dial-refused', 'a folder of files takes no connections'))
    }
  }
}

interface FileServerParts {
  readonly clock: Clock
  readonly files: OpenFiles
  readonly known: LRUCache<string, Known>
  /** Prefix of this folder's cache keys. */
  readonly prefix: string
  open(): Promise<Folder>
}

/** Serves the files of one unit. */
class FileServer {
  readonly #unit: FileUpstream
  readonly #parts: FileServerParts
  readonly #cacheControl: (path: string) => string | undefined
  #folder: { readonly opened: Promise<Folder>; readonly at: number } | undefined

  constructor(unit: FileUpstream, parts: FileServerParts) {
    this.#unit = unit
    this.#parts = parts
    this.#cacheControl = cacheControlOf(unit)
  }

  /** Calls `answered` once, asynchronously. `gone`: the client has disconnected. */
  answers({ head, responseTimeout }: ForwardOptions, answered: (answer: Answer) => void, gone: () => boolean): void {
    const ready = this.#atOnce(head)
    if (ready !== undefined) {
      queueMicrotask(() => answered(ready))
      return
    }
    // An unresponsive disk, such as a network file system, must not block the client forever.
    let late = false
    const timer =
      responseTimeout === 0
        ? undefined
        : setTimeout(() => {
            late = true
            answered(failed('upstream-timeout', 'the disk does not answer'))
          }, responseTimeout)
    this.#answer(head).then(
      (answer) => {
        clearTimeout(timer)
        if (!late && !gone()) answered(answer)
        else if (answer.kind === 'response') answer.body.discard()
        if (!late && gone()) answered(failed('client-gone', 'the client has gone'))
      },
      (error: unknown) => {
        clearTimeout(timer)
        if (!late) answered(failureOf(error))
      }
    )
  }

  /** Returns the response from memory; undefined if the file must be checked. */
  #atOnce({ method, target, headers }: RequestHead): Answer | undefined {
    if (method !== 'GET' && method !== 'HEAD') return responseOf(otherMethod(method))
    const known = this.#parts.known.get(this.#keyOf(withoutQuery(target)))
    if (known === undefined || !this.#isFresh(known.at)) return undefined
    const { accepted, conditions } = readFileFields(headers)
    const answer = conditions === undefined ? known.file.whole(accepted) : undefined
    return answer && responseOf(answer)
  }

  async #answer({ method, target, headers }: RequestHead): Promise<Answer> {
    const { accepted, conditions = {} } = readFileFields(headers)
    for (let look = 0; look < LOOKS; look++) {
      const found = await this.#find(withoutQuery(target), look > 0)
      let answer: FileAnswer = 'changed'
      if (found?.kind === 'file') answer = await found.file.answer(method, accepted, conditions, this.#parts.files)
      else if (found !== undefined) answer = await this.#without(found, target)
      if (answer !== 'changed') return responseOf(answer)
    }
    return failed('upstream-gone', `a file changes all the time: ${this.#unit.folder}`)
  }

  /** Returns the response if no file is sent. */
  async #without(found: NoFile, target: string): Promise<FileAnswer> {
    if (found.kind === 'text') return textAnswer(found.status)
    if (found.kind === 'slash') return textAnswer(308, ['Location', withSlash(target)])
    const page = Buffer.from(await listFolder(await this.#opened(), found.path))
    const headers = ['Content-Type', 'text/html; charset=utf-8', 'Cache-Control', 'no-cache']
    headers.push('Content-Security-Policy', LISTING_POLICY, 'X-Content-Type-Options', 'nosniff')
    return { status: 200, headers, body: new FileBody({ kind: 'length', bytes: page.length }, { whole: page }) }
  }

  /** Looks up a path; undefined if its file changed meanwhile. `again`: the cached result is stale. */
  async #find(target: string, again: boolean): Promise<Found | undefined> {
    const key = this.#keyOf(target)
    const known = this.#parts.known.get(key)
    if (known !== undefined && !again && this.#isFresh(known.at)) return { kind: 'file', file: known.file }
    const path = readFilePath(target)
    if (path === undefined) return NOT_FOUND
    const found = await this.#lookAt(path)
    if (found.kind !== 'file') {
      this.#parts.known.delete(key)
      return found
    }
    const { clock, files } = this.#parts
    const at = clock.monotonic()
    const { precompressed = [] } = this.#unit
    const folder = await this.#opened()
    const parts = { folder, files, precompressed, cacheControl: this.#cacheControl, before: known?.file }
    const file = await ServedFile.load(found.path, found.facts, parts)
    if (file === undefined) {
      this.#parts.known.delete(key)
      return undefined
    }
    this.#parts.known.set(key, { file, at })
    return { kind: 'file', file }
  }

  async #lookAt({ path, isFolder }: FilePath): Promise<NoFile | FoundFile> {
    const { index, listing, fallback } = this.#unit
    const folder = await this.#opened()
    const found = await folder.look(path)
    if (found.kind === 'file' && !isFolder) return { kind: 'file', path, facts: found }
    if (found.kind === 'forbidden') return { kind: 'text', status: 403 }
    if (found.kind === 'folder') {
      if (!isFolder) return { kind: 'slash' }
      for (const name of index) {
        const within = path === '' ? name : `${path}/${name}`
        const page = await folder.look(within)
        if (page.kind === 'file') return { kind: 'file', path: within, facts: page }
      }
      if (listing === true) return { kind: 'folder', path }
    }
    if (fallback === undefined || !mayFallBack(path)) return NOT_FOUND
    const page = await folder.look(fallback.slice(1))
    return page.kind === 'file' ? { kind: 'file', path: fallback.slice(1), facts: page } : NOT_FOUND
  }

  #keyOf(target: string): string {
    return this.#parts.prefix + target
  }

  #isFresh(at: number): boolean {
    return this.#parts.clock.monotonic() - at < FRESH
  }

  /** Returns the folder, which is reopened each second because its path may be a link that has changed. */
  #opened(): Promise<Folder> {
    if (this.#folder === undefined || !this.#isFresh(this.#folder.at)) {
      const opened = this.#parts.open()
      this.#folder = { opened, at: this.#parts.clock.monotonic() }
    }
    return this.#folder.opened
  }
}

/**
 * Returns the relative target with a slash after its path: it is correct even if a policy removed part of the path, and cannot lead to
 * another host.
 */
function withSlash(target: string): string {
  const path = withoutQuery(target)
  return `./${path.slice(path.lastIndexOf('/') + 1)}/${target.slice(path.length)}`
}

function otherMethod(method: string): Exclude<FileAnswer, 'changed'> {
  return textAnswer(method === 'OPTIONS' ? 204 : 405, ['Allow', METHODS])
}

function responseOf({ status, headers, body }: Exclude<FileAnswer, 'changed'>): Answer {
  return { kind: 'response', head: { status, headers }, body, reusedConnection: false }
}

function failed(failure: Failure, detail: string): Answer {
  return { kind: 'failed', failure, retry: 'safe', detail }
}

/** Returns why no file was sent: the folder is missing or the disk fails. */
function failureOf(error: unknown): Answer {
  if (error instanceof DialError) return failed(error.failure, error.message)
  return failed('dial-refused', `files cannot be read: ${codeOf(error) ?? String(error)}`)
}

import { readdir, readFile } from 'node:fs/promises'
import { dirname, posix } from 'node:path'
import { type DeclaredSet, SITE_FILE } from '../../control/declared-records.js'
import type { PolicyTesting } from '../../control/policy-tests.js'
import type { Clock } from '../../lib/clock.js'
import { codeOf } from '../../lib/errors.js'
import { shownPath } from '../../lib/files.js'
import { formatAuthority } from '../../lib/host.js'
import { timestampText } from '../../lib/json.js'
import { refusalOfFolder } from '../../lib/named-folders.js'
import { Slices } from '../../lib/slices.js'
import { fileReason } from '../../lib/system-errors.js'
import { opensListen } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import { readListener } from '../../options/values.js'
import type { UnitProblems } from '../../policy/problems.js'
import { siteErrors } from './declared/site-codes.js'
import {
  newVersionKey,
  readSiteFile,
  type SiteChanges,
  type SiteFile,
  type SiteFileRead,
  siteChanges
} from './declared/site-file.js'
import type { PolicyProblems, SiteFileInput } from './declared/site-input.js'
import { SiteMemory } from './declared/site-memory.js'
import type { SiteBundle, SiteReading } from './declared/site-request.js'

export interface SiteFileHost {
  readonly clock: Clock
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly policyProblems: PolicyProblems
  readonly testPolicy: PolicyTesting
}

/** A site file that was read, with the changes of applying it. */
export interface ReadSite extends SiteFileRead {
  readonly set?: DeclaredSet
  readonly changes: SiteChanges
  /** It serves now. */
  applied(): void
}

type From = Pick<SiteFileInput, 'source' | 'folder' | 'text' | 'readFile' | 'listFolder' | 'policed' | 'checkFolder'>

/** Listeners that the options open, regardless of the site file. */
type Open = Pick<Options, 'listeners' | 'api' | 'agents'> & { readonly listen: Options['listen'] | undefined }

/** Reads site files, and the files that they name, as this process would serve them. */
export class SiteReader implements SiteReading {
  #options: Options
  readonly #host: SiteFileHost
  readonly #versionKey = newVersionKey()
  readonly #memory = new SiteMemory()
  #reads = 0

  constructor(options: Options, host: SiteFileHost) {
    this.#options = options
    this.#host = host
  }

  /** Applies changed options. */
  use(options: Pick<Options, 'listeners' | 'edges_on_http'>): void {
    this.#options = { ...this.#options, ...options }
  }

  get startedWith(): string | undefined {
    const { site_file: path } = this.#options
    return path === undefined ? undefined : shownPath(path)
  }

  get edgesOnHttp(): Options['edges_on_http'] {
    return this.#options.edges_on_http
  }

  async read({ file, text, files }: SiteBundle, policed: ReadonlySet<string>): Promise<SiteFileRead> {
    const named = new Map(files.map((one) => [one.name, one]))
    const readNamed = async (_path: string, name: string) => {
      const found = named.get(name)
      if (found !== undefined && 'text' in found) return found.text
      throw Object.assign(new Error('the file does not come with the site file'), { code: found?.error ?? 'ENOENT' })
    }
    const listFolder = async (_path: string, name: string) =>
      files.flatMap((one) => (posix.dirname(one.name) === name ? [posix.basename(one.name)] : []))
    // Listeners of the process stay open beside those of an applied file.
    return await this.#readFrom(
      {
        source: file,
        folder: '/',
        text,
        readFile: readNamed,
        listFolder,
        policed,
        checkFolder: (path) => refusalOfFolder(path, this.#options.file_folders)
      },
      this.#options
    )
  }

  /** Reads a site file as at start. */
  async readFrom(from: From): Promise<SiteFileRead> {
    const { listen } = this.#options
    return await this.#readFrom(from, listen.preset === true ? { ...this.#options, listen: undefined } : this.#options)
  }

  async #readFrom(from: From, open: Open): Promise<SiteFileRead> {
    const { clock, environment, policyProblems, testPolicy } = this.#host
    return await readSiteFile({
      ...from,
      environment,
      policyProblems,
      testPolicy,
      readListener,
      opened: openedBy(open),
      usual: open.listen === undefined && opensListen(this.#options, 0) ? this.#options.listen : undefined,
      clock,
      versionKey: this.#versionKey,
      memory: this.#memory,
      // The first reading has no traffic beside it.
      slices: this.#reads++ === 0 ? new Slices() : Slices.besideTraffic(),
      zone: this.#options.zone,
      refuseExpired: false,
      process: {
        agreed: this.#options.acme.agree_terms,
        tls: this.#options.listeners.some(({ tls }) => tls),
        ports: portsOf(open),
        lenientPaths:
          this.#options.path_form !== 'strict' ||
          this.#options.listeners.some(({ path_form = 'strict' }) => path_form !== 'strict')
      }
    })
  }

  now(): number {
    return this.#host.clock.wall()
  }
}

/** The site file of a process: reads it with all files that it names, and remembers the served version. */
export class SiteFiles {
  readonly #path: string
  readonly #reader: SiteReader
  #serving: SiteFile | undefined

  constructor(path: string, reader: SiteReader) {
    this.#path = path
    this.#reader = reader
  }

  /** Reads the site file. Never rejects because of its contents; an unreadable file is a problem. */
  async read(): Promise<ReadSite> {
    const source = shownPath(this.#path)
    const text = await textOf(this.#path)
    if (typeof text !== 'string') {
      return { problems: [unreadable(source, text.code)], files: [], changes: NO_CHANGES, applied: () => undefined }
    }
    const read = await this.#reader.readFrom({
      source,
      folder: dirname(this.#path),
      text,
      readFile: (path) => readFile(path, 'utf8'),
      listFolder: (path) => readdir(path),
      policed: this.#serving?.policed ?? new Set()
    })
    const { file } = read
    if (file === undefined) return { ...read, changes: NO_CHANGES, applied: () => undefined }
    const since = timestampText(this.#reader.now())
    return {
      ...read,
      set: { source, text, records: file.records, site: file, since },
      changes: siteChanges(this.#serving?.contents ?? new Map(), file.contents),
      applied: () => {
        this.#serving = file
      }
    }
  }
}

const NO_CHANGES: SiteChanges = { added: [], changed: [], removed: [] }

/** Addresses that the options open, with the names of the options. */
function openedBy({ listen, listeners, api, agents }: Open): ReadonlyMap<string, string> {
  const opened = new Map<string, string>()
  const add = ({ host, port }: Options['listen'], option: string) => {
    if (port !== 0) opened.set(formatAuthority(host, port), `the option ${option}`)
  }
  if (listen !== undefined) add(listen, 'listen')
  for (const listener of listeners) add(listener.listen, 'listeners')
  add(api.listen, 'api.listen')
  if (agents !== undefined) add(agents, 'agents')
  return opened
}

/** Ports that clients know the listeners of the options by. */
function portsOf({ listen, listeners }: Open): number[] {
  return [...(listen === undefined ? [] : [listen.port]), ...listeners.map((one) => one.public_port ?? one.listen.port)]
}

async function textOf(path: string): Promise<string | { readonly code: string }> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = codeOf(error)
    if (code === undefined) throw error
    return { code }
  }
}

/** A site file that cannot be read, as a problem of its first line. */
function unreadable(source: string, code: string): UnitProblems {
  const message = fileReason(code)
  const place = { path: '', line: 1, column: 1, length: 1 }
  return {
    key: SITE_FILE,
    source,
    text: '',
    problems: [{ severity: 'error', code: siteErrors.FILE_UNREADABLE.code, message, ...place }]
  }
}

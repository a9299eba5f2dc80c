import type { SecretValues, Unit } from '../../../runtime/plan.js'
import type { CertificateHost, DeclaredPart } from './declared-part.js'

const NEWLINE = 0x0a

/** Units of records, with a digest for each label. */
export interface PartUnits {
  readonly units: readonly (readonly [key: string, unit: Unit])[]
  readonly secrets: SecretValues
  readonly contents: readonly (readonly [label: string, digest: string])[]
}

/** Result of reading one site. */
export interface RememberedSite {
  /** Its lines, and the first of them. */
  readonly text: string
  readonly name: string
  /** Number of its lines. */
  readonly lines: number
  /** Its name in the file. */
  readonly key: string
  /** Number of its first line when it was read. */
  readonly first: number
  /** Values of its tree. */
  readonly nodes: number
  readonly part: DeclaredPart
  readonly units: PartUnits
  /** Offsets count from its own text. */
  readonly hosts: readonly CertificateHost[]
  /** Backends by URL: ids of those that it uses, and which of them it has made. */
  readonly used: ReadonlyMap<string, string | undefined>
  readonly made: ReadonlySet<string>
}

/**
 * The sites of the last reading in order. A site with the same text, in a file with the same other parts and surroundings,
 * has the same units.
 */
export class SiteMemory {
  #around = ''
  #sites: readonly RememberedSite[] = []

  /** Sites that were read with the same around them. */
  sites(around: string): KnownSites {
    return new KnownSites(around === this.#around ? this.#sites : [])
  }

  keep(around: string, sites: readonly RememberedSite[]): void {
    this.#around = around
    this.#sites = sites
  }
}

/** Finds remembered sites by their first lines, quickly if their order is unchanged. */
export class KnownSites {
  readonly #sites: readonly RememberedSite[]
  /** Made when a site is not where it was. */
  #byName: ReadonlyMap<string, number> | undefined
  #next = 0

  constructor(sites: readonly RememberedSite[]) {
    this.#sites = sites
  }

  /** Returns the site whose first line begins at `start` of the text. */
  at(text: string, start: number): RememberedSite | undefined {
    const next = this.#sites[this.#next]
    if (next !== undefined && text.startsWith(next.name, start) && endsLine(text, start + next.name.length)) {
      this.#next++
      return next
    }
    this.#byName ??= new Map(this.#sites.map(({ name }, index) => [name, index]))
    const index = this.#byName.get(firstLine(text, start))
    if (index === undefined) return undefined
    this.#next = index + 1
    return this.#sites[index]
  }
}

function endsLine(text: string, at: number): boolean {
  return at === text.length || text.charCodeAt(at) === NEWLINE
}

/** The line that begins at `start`. */
export function firstLine(text: string, start: number): string {
  const end = text.indexOf('\n', start)
  return text.slice(start, end === -1 ? text.length : end)
}

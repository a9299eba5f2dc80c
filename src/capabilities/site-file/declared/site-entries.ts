import { Passes, type Slices } from '../../../lib/slices.js'
import { readBlockEntry } from '../../../policy/block-yaml.js'
import type { TreeLimits, TreeNode } from '../../../policy/tree.js'
import type { Declaration } from './declaration.js'
import { type CertificateHost, movedPart } from './declared-part.js'
import { countNodes } from './imports.js'
import { type Names, namesWithin } from './names.js'
import type { SiteLines } from './site-lines.js'
import { firstLine, type KnownSites, type PartUnits, type RememberedSite, SiteMemory } from './site-memory.js'
import { lineCount } from './site-text.js'
import { movedUnits, unitsOf } from './site-units.js'
import { readSite } from './sites.js'
import { Values } from './values.js'
import { Variables } from './variables.js'

/** Context for reading sites one by one. */
export interface EntriesReader {
  readonly declaration: Declaration
  readonly names: Names
  readonly vaults: ReadonlyMap<string, string>
  readonly lines: SiteLines
  readonly limits: TreeLimits
  /** The file without its sites. */
  readonly head: TreeNode
  /** Gets the hosts that may need a certificate. */
  readonly hosts: CertificateHost[]
}

/** The file cannot be read site by site, because a site is in another style or the file has a mistake that spans several. */
export const NOT_BY_SITE: unique symbol = Symbol('not by site')

/** Reads the sites of a file one by one; unchanged sites with unchanged surroundings are reused from memory. */
export async function readSiteEntries(reader: EntriesReader): Promise<readonly PartUnits[] | typeof NOT_BY_SITE> {
  return await new SiteEntries(reader).read()
}

class SiteEntries {
  readonly #reader: EntriesReader
  readonly #slices: Slices
  readonly #memory: SiteMemory
  readonly #around: string
  readonly #known: KnownSites
  readonly #next: RememberedSite[] = []
  readonly #keys = new Set<string>()
  #nodes: number

  constructor(reader: EntriesReader) {
    const { declaration, lines, head } = reader
    this.#reader = reader
    this.#slices = declaration.slices
    this.#memory = declaration.input.memory ?? new SiteMemory()
    this.#around = aroundSites(declaration, lines)
    this.#known = this.#memory.sites(this.#around)
    this.#nodes = countNodes(head)
  }

  async read(): Promise<readonly PartUnits[] | typeof NOT_BY_SITE> {
    const { declaration, lines, hosts, limits } = this.#reader
    const { text } = declaration.input
    const all: PartUnits[] = []
    const passes = new Passes()
    let first = declaration.lineAt(lines.all).line
    for (const { start, end } of lines.sites) {
      if (passes.due() && this.#slices.due) await this.#slices.rest()
      const known = this.#known.at(text, start)
      const isSame = known !== undefined && known.text.length === end - start && text.startsWith(known.text, start)
      const taken = isSame && this.#mayTake(known) ? this.#moved(known, first) : undefined
      const mayBeTaken = taken !== undefined && (taken.part.texts.length === 0 || (await this.#hasSameFiles(taken)))
      const site = mayBeTaken && declaration.take(taken.part) ? taken : await this.#readAnew(start, end, first)
      if (site === undefined || this.#keys.has(site.key)) return NOT_BY_SITE
      this.#keys.add(site.key)
      this.#nodes += site.nodes
      if (this.#nodes > limits.nodes) return NOT_BY_SITE
      for (const url of site.made) this.#reader.names.written.set(url, site.used.get(url))
      for (const { host, port, choice, at } of site.hosts) {
        const span = { start: start + at.span.start, end: start + at.span.end }
        hosts.push({ host, port, choice, at: { path: at.path, span } })
      }
      if (!site.part.failed && !site.part.volatile) this.#next.push(site)
      all.push(site.units)
      first += site.lines
    }
    this.#memory.keep(this.#around, this.#next)
    return all
  }

  #mayTake({ part, used, made }: RememberedSite): boolean {
    const { declaration, names } = this.#reader
    if (part.unpoliced.some((place) => declaration.input.policed.has(place))) return false
    for (const [url, id] of used) {
      if (made.has(url) ? names.written.has(url) : !names.written.has(url) || names.written.get(url) !== id)
        return false
    }
    return true
  }

  #moved(site: RememberedSite, first: number): RememberedSite {
    if (site.first === first) return site
    const part = movedPart(site.part, first - site.first)
    const { source } = this.#reader.declaration.input
    const units = movedUnits(site.units, (owner) => {
      const line = part.policyLines.get(owner)
      return line === undefined ? undefined : `${source}:${line}`
    })
    return { ...site, first, part, units }
  }

  async #hasSameFiles({ part: { texts } }: RememberedSite): Promise<boolean> {
    try {
      for (const { name, text } of texts) if ((await this.#reader.declaration.textOf(name)) !== text) return false
      return true
    } catch {
      // An unreadable file is reported when the site is read again.
      return false
    }
  }

  async #readAnew(start: number, end: number, first: number): Promise<RememberedSite | undefined> {
    const { declaration, vaults, lines: where, limits } = this.#reader
    // A copy, because a substring would keep the whole text of the file in memory.
    const cut = declaration.input.text.slice(start, end)
    const encoding = Buffer.byteLength(cut) === cut.length ? 'latin1' : 'utf16le'
    const text = Buffer.from(cut, encoding).toString(encoding)
    const read = await this.#slices.run(readBlockEntry(text, where.indent, { ...limits, depth: limits.depth - 1 }))
    if (read === undefined) return undefined
    const entry = declaration.entry(text, first)
    const names = namesWithin(this.#reader.names, entry)
    const hosts: CertificateHost[] = []
    const values = new Values(entry, names, vaults)
    const site = new Variables(entry).site(read.entry)
    const policy = site && (await readSite({ declaration: entry, names, values }, site, hosts))
    const part = entry.part()
    const { source, versionKey } = declaration.input
    const sourceOf = (owner: string) => entry.sourceOf(owner)
    const policies = policy === undefined ? [] : [policy]
    const units = unitsOf({ records: part.records, policies, sourceOf, source, versionKey })
    const { used, made } = names.written
    // Claims were looked up in the whole file when the records were created.
    if (!declaration.take(part)) throw new RangeError('a site was read that clashes with another one')
    const name = firstLine(text, 0)
    const about = { text, name, key: read.entry.key, first, lines: lineCount(text) }
    return { ...about, nodes: read.nodes, part, units, hosts, used, made }
  }
}

/** All that the meaning of a site depends on beside its text and the files that it names. */
function aroundSites({ input }: Declaration, { all }: SiteLines): string {
  const { source, folder, text, opened, usual, zone, refuseExpired, process } = input
  const options = JSON.stringify([source, folder, [...opened], usual, zone, refuseExpired, process])
  return `${options}\n${text.slice(0, all.start)}\n${text.slice(all.end)}`
}

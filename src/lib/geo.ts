import { readFileSync } from 'node:fs'
import { access, constants, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { Reader } from 'maxmind'
import { formatAddress, parseAddress } from './ip.js'

/** Location of an address; '' for unknown data. Numbers are decimal text. */
export interface Place {
  readonly city: string
  readonly continent: string
  /** English name. */
  readonly country: string
  /** ISO 3166-1 alpha-2, upper-case. */
  readonly countryCode: string
  readonly isEu: boolean
  readonly latitude: string
  readonly longitude: string
  readonly metroCode: string
  readonly postalCode: string
  /** In kilometres. */
  readonly radius: string
  readonly subdivision: string
  /** IANA name. */
  readonly timezone: string
}

interface GeoRecord {
  readonly location: Place
  readonly registered: Place
  /** 0 when unknown. */
  readonly asNumber: number
  readonly asOrganization: string
}

/** Location data of addresses. */
export interface Geo {
  /** Kinds of data in the database. */
  readonly covers: { readonly country: boolean; readonly city: boolean; readonly as: boolean }
  /** Loads the data for `lookup`, unless loaded. Called for expressions that look up addresses, so that no request waits. */
  prepare(): void
  /** Returns the data of an address, after unmapping IPv4-mapped forms; an empty record if unknown. */
  lookup(address: string): GeoRecord
}

const NOWHERE: Place = {
  city: '',
  continent: '',
  country: '',
  countryCode: '',
  isEu: false,
  latitude: '',
  longitude: '',
  metroCode: '',
  postalCode: '',
  radius: '',
  subdivision: '',
  timezone: ''
}
const NOTHING: GeoRecord = { location: NOWHERE, registered: NOWHERE, asNumber: 0, asOrganization: '' }

/** Location data without a database: all empty. */
export const noGeo: Geo = {
  covers: { country: false, city: false, as: false },
  prepare: () => undefined,
  lookup: () => NOTHING
}

/** Coverage of the bundled database. */
export const SHIPPED: Geo['covers'] = { country: true, city: false, as: false }

/**
 * Opens an MMDB file. Supports the layouts of MaxMind (GeoIP2 and GeoLite2 Country, City, ASN) and of ip-location-db. Rejects if the file
 * is missing, or if a given file is not a database.
 * @default the bundled country database
 */
export async function openGeo(file?: string): Promise<Geo> {
  if (file !== undefined) return new MmdbGeo(new Reader<never>(await readFile(file)))
  const database = shippedDatabase()
  await access(database, constants.R_OK)
  shipped ??= new ShippedGeo(database)
  return shipped
}

/** Immutable and shared within a thread. */
let shipped: Geo | undefined

/** Loads its eight megabytes on first use, because few policies need them. */
class ShippedGeo implements Geo {
  readonly covers = SHIPPED
  readonly #file: string
  #opened: Geo | undefined = undefined

  constructor(file: string) {
    this.#file = file
  }

  prepare(): void {
    this.#open()
  }

  lookup(address: string): GeoRecord {
    return this.#open().lookup(address)
  }

  #open(): Geo {
    this.#opened ??= new MmdbGeo(new Reader<never>(readFileSync(this.#file)))
    return this.#opened
  }
}

function shippedDatabase(): string {
  const manifest = createRequire(import.meta.url).resolve('@ip-location-db/geo-whois-asn-country-mmdb/package.json')
  return join(dirname(manifest), 'geo-whois-asn-country.mmdb')
}

class MmdbGeo implements Geo {
  readonly covers: Geo['covers']
  readonly #reader: Reader<never>
  readonly #known = new LRUCache<string, GeoRecord>({ max: 10_000 })

  constructor(reader: Reader<never>) {
    this.#reader = reader
    const kind = reader.metadata.databaseType.toLowerCase()
    const city = /city|enterprise|precision/.test(kind)
    this.covers = { country: city || kind.includes('country'), city, as: /asn(?!-country)|isp|enterprise/.test(kind) }
  }

  prepare(): void {}

  lookup(address: string): GeoRecord {
    const known = this.#known.get(address)
    if (known !== undefined) return known
    const parsed = parseAddress(address)
    if (parsed === undefined) return NOTHING
    const data = this.#reader.get(formatAddress(parsed)) as MmdbRecord | null
    const record = data === null ? NOTHING : this.#record(data)
    this.#known.set(address, record)
    return record
  }

  #record(data: MmdbRecord): GeoRecord {
    return {
      location: this.#location(data),
      registered: this.#place(data.registered_country, {}, data),
      asNumber: data.autonomous_system_number ?? data.traits?.autonomous_system_number ?? 0,
      asOrganization: data.autonomous_system_organization ?? data.traits?.autonomous_system_organization ?? ''
    }
  }

  #location(data: MmdbRecord): Place {
    const flat = typeof data.city === 'string'
    const location = flat || data.location === undefined ? data : data.location
    const country = data.country_code === undefined ? data.country : { iso_code: data.country_code }
    return this.#place(
      country,
      {
        city: typeof data.city === 'string' ? data.city : nameOf(data.city),
        latitude: text(location.latitude),
        longitude: text(location.longitude),
        metroCode: text(location.metro_code),
        postalCode: data.postal?.code ?? data.postcode ?? '',
        radius: text(location.accuracy_radius),
        subdivision: data.state1 ?? nameOf(data.subdivisions?.[0]),
        timezone: location.time_zone ?? data.timezone ?? ''
      },
      data
    )
  }

  #place(country: MmdbCountry | undefined, more: Partial<Place>, data: MmdbRecord): Place {
    const countryCode = (country?.iso_code ?? '').toUpperCase()
    return {
      ...NOWHERE,
      ...more,
      countryCode,
      continent: country === undefined ? '' : (data.continent?.names?.en ?? ''),
      get country() {
        return country?.names?.en ?? countryName(countryCode)
      },
      isEu: country?.is_in_european_union ?? EU.has(countryCode)
    }
  }
}

/** Created on first use: loading the names takes some 20 ms, and few policies read them. */
let countryNames: Intl.DisplayNames | undefined

function countryName(code: string): string {
  if (!/^[A-Z]{2}$/.test(code)) return ''
  countryNames ??= new Intl.DisplayNames(['en'], { type: 'region' })
  return countryNames.of(code) ?? ''
}

interface MmdbNamed {
  readonly names?: { readonly en?: string }
}

interface MmdbCountry extends MmdbNamed {
  readonly iso_code?: string
  readonly is_in_european_union?: boolean
}

interface MmdbLocation {
  readonly latitude?: number | string
  readonly longitude?: number | string
  readonly accuracy_radius?: number
  readonly metro_code?: number
  readonly time_zone?: string
}

/** Record in both layouts: nested objects are MaxMind's, `country_code`, `state1`, `postcode`, `timezone` ip-location-db's. */
interface MmdbRecord extends MmdbLocation {
  readonly city?: MmdbNamed | string
  readonly continent?: MmdbNamed
  readonly country?: MmdbCountry
  readonly registered_country?: MmdbCountry
  readonly subdivisions?: readonly MmdbNamed[]
  readonly location?: MmdbLocation
  readonly postal?: { readonly code?: string }
  readonly country_code?: string
  readonly state1?: string
  readonly postcode?: string
  readonly timezone?: string
  readonly autonomous_system_number?: number
  readonly autonomous_system_organization?: string
  readonly traits?: { readonly autonomous_system_number?: number; readonly autonomous_system_organization?: string }
}

const EU = new Set('AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK'.split(' '))

function nameOf(named: MmdbNamed | undefined): string {
  return named?.names?.en ?? ''
}

function text(value: number | string | undefined): string {
  return value === undefined ? '' : String(value)
}

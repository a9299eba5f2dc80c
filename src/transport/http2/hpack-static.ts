/** The static table (RFC 7541 Appendix A) from index 1: a name, and behind `=` its value. */
const FIELDS =
  ':authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|:status=206|' +
  ':status=304|:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|' +
  'accept|access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|content-encoding|' +
  'content-language|content-length|content-location|content-range|content-type|cookie|date|etag|expect|expires|from|host|' +
  'if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|location|max-forwards|' +
  'proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie|strict-transport-security|' +
  'transfer-encoding|user-agent|vary|via|www-authenticate'

/** A field that a table holds. */
export interface TableField {
  readonly name: string
  readonly value: string
  /** Name and value are within the grammar (RFC 9113 8.2.1). */
  readonly nameSound: boolean
  readonly valueSound: boolean
}

/** What a field takes in a table, and in a list that is counted, besides its bytes (RFC 7541 4.1, RFC 9113 6.5.2). */
export const FIELD_OVERHEAD = 32
/** The initial SETTINGS_HEADER_TABLE_SIZE, and the largest table that either side keeps here. */
export const TABLE_SIZE = 4096

export const STATIC_TABLE: readonly TableField[] = FIELDS.split('|').map((field) => {
  const split = field.indexOf('=')
  const [name, value] = split < 0 ? [field, ''] : [field.slice(0, split), field.slice(split + 1)]
  return { name, value, nameSound: true, valueSound: true }
})

/** The first static index of each name. */
export const STATIC_NAMES: ReadonlyMap<string, number> = new Map(
  STATIC_TABLE.map(({ name }, i) => [name, i + 1] as const).reverse()
)

/** Static indexes of fields whose value is there too. */
export const STATIC_VALUES: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map(
  [...new Set(STATIC_TABLE.filter(({ value }) => value !== '').map(({ name }) => name))].map((wanted) => [
    wanted,
    new Map(STATIC_TABLE.flatMap(({ name, value }, i) => (name === wanted ? [[value, i + 1] as const] : [])))
  ])
)

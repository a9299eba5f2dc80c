import type { Flow } from '../../flow/flow.js'
import type { Geo, Place } from '../../lib/geo.js'
import { serverAddress } from './conn.js'
import type { VariableDefinition } from './definition.js'

const CITY_DATA = 'a city database (MMDB)'
const COUNTRY_DATA = 'a country database (MMDB)'

/** `conn.geo.*`: where the client is. */
export function geoVariables(geo: Geo): readonly VariableDefinition[] {
  const place = (flow: Flow) => geo.lookup(flow.clientAddress).location
  const city = missing(geo.covers.city, CITY_DATA)
  const country = missing(geo.covers.country, COUNTRY_DATA)
  return [
    { path: 'conn.geo.city', type: 'string', ...city, read: (flow) => place(flow).city },
    { path: 'conn.geo.country', type: 'string', ...country, read: (flow) => place(flow).country },
    { path: 'conn.geo.country_code', type: 'string', ...country, read: (flow) => place(flow).countryCode },
    { path: 'conn.geo.latitude', type: 'string', ...city, read: (flow) => place(flow).latitude },
    { path: 'conn.geo.longitude', type: 'string', ...city, read: (flow) => place(flow).longitude },
    { path: 'conn.geo.radius', type: 'string', ...city, read: (flow) => place(flow).radius },
    { path: 'conn.geo.subdivision', type: 'string', ...city, read: (flow) => place(flow).subdivision }
  ]
}

/** `conn.client_ip.*` and `conn.server_ip.*`: what is known about the two addresses. */
export function addressVariables(geo: Geo): readonly VariableDefinition[] {
  return [
    ...intelligence('conn.client_ip', (flow) => flow.clientAddress, geo),
    ...intelligence('conn.server_ip', serverAddress, geo)
  ]
}

function intelligence(root: string, address: (flow: Flow) => string, geo: Geo): VariableDefinition[] {
  const record = (flow: Flow) => geo.lookup(address(flow))
  const as = missing(geo.covers.as, 'an AS number database (MMDB)')
  const lists = { missing: 'a source of address categories' }
  return [
    { path: `${root}.categories`, type: 'list<string>', ...lists, read: () => [] },
    { path: `${root}.is_on_blocklist`, type: 'bool', ...lists, read: () => false },
    { path: `${root}.is_tor_node`, type: 'bool', ...lists, read: () => false },
    { path: `${root}.as.number`, type: 'int', ...as, read: (flow) => BigInt(record(flow).asNumber) },
    { path: `${root}.as.organization`, type: 'string', ...as, read: (flow) => record(flow).asOrganization },
    ...places(`${root}.geo.location`, (flow) => record(flow).location, geo, false),
    ...places(`${root}.geo.registered_location`, (flow) => record(flow).registered, geo, true)
  ]
}

/** The registered country is in no country-only database; it has no coordinates, post code or city radius. */
function places(root: string, place: (flow: Flow) => Place, geo: Geo, registered: boolean): VariableDefinition[] {
  const city = missing(geo.covers.city, CITY_DATA)
  const country = registered ? city : missing(geo.covers.country, COUNTRY_DATA)
  const both: VariableDefinition[] = [
    { path: `${root}.city`, type: 'string', ...city, read: (flow) => place(flow).city },
    { path: `${root}.continent`, type: 'string', ...city, read: (flow) => place(flow).continent },
    { path: `${root}.country`, type: 'string', ...country, read: (flow) => place(flow).country },
    { path: `${root}.country_code`, type: 'string', ...country, read: (flow) => place(flow).countryCode },
    { path: `${root}.is_eu`, type: 'bool', ...country, read: (flow) => place(flow).isEu },
    { path: `${root}.metro_code`, type: 'string', ...city, read: (flow) => place(flow).metroCode },
    { path: `${root}.subdivision`, type: 'string', ...city, read: (flow) => place(flow).subdivision },
    { path: `${root}.timezone`, type: 'string', ...city, read: (flow) => place(flow).timezone }
  ]
  if (registered) return both
  return [
    ...both,
    { path: `${root}.latitude`, type: 'string', ...city, read: (flow) => place(flow).latitude },
    { path: `${root}.longitude`, type: 'string', ...city, read: (flow) => place(flow).longitude },
    { path: `${root}.postal_code`, type: 'string', ...city, read: (flow) => place(flow).postalCode },
    { path: `${root}.radius`, type: 'string', ...city, read: (flow) => place(flow).radius }
  ]
}

function missing(covered: boolean, data: string): { readonly missing?: string } {
  return covered ? {} : { missing: data }
}

import { parseAuthority } from '../lib/host.js'
import { described, text } from '../schema/fields.js'
import { refusalOfTcpHost } from '../schema/formats.js'
import type { RuleView } from '../schema/objects.js'
import { withdrawnRef } from '../schema/references.js'
import { defineResource, type MakeView } from './resource.js'

/** First and last port that is drawn for an address without one: below those that systems give to outgoing connections. */
const PORTS = { first: 20_000, last: 32_767 } as const

/** Rejects an address that no TCP edge can have. */
function checkAddress({ body, given, report }: RuleView): void {
  const addr = String(body.addr)
  if (!given.has('addr') || addr === '') return
  const refusal = parseAuthority(addr)?.port === undefined ? 'needs a host and a port' : refusalOfTcpHost(addr, false)
  if (refusal !== undefined) report('addr', 'FIELD_INVALID', refusal)
}

/** Draws a port in the zone of the process. A port that is taken is refused by its claim, so the client may ask again. */
async function drawAddress({ body, before, makers }: MakeView): Promise<void> {
  if (before !== undefined || body.addr !== '') return
  const [high = 0, middle = 0, low = 0] = makers.random(3)
  const number = high * 65_536 + middle * 256 + low
  body.addr = `${makers.zone}:${PORTS.first + (number % (PORTS.last - PORTS.first + 1))}`
}

/** TCP address that only edges and endpoints of the account use. */
export const reservedAddress = defineResource({
  name: 'reserved_addr',
  description: 'A TCP address, host and port, that TCP edges and tcp endpoints use.',
  path: '/reserved_addrs',
  listKey: 'reserved_addrs',
  idPrefix: 'ra',
  events: 'tcp_address',
  rules: [{ on: ['addr'], check: checkAddress }],
  make: drawAddress,
  fields: {
    ...described,
    addr: text({
      description:
        'host:port, fixed. The reference draws it; an extension of Sluice: a request may name it. Default: a port from 20000 to 32767 at the zone.',
      form: 'hostport',
      bytes: 300,
      fixed: true,
      unique: 'reserved_addr'
    }),
    region: text({ description: 'Kept as given; addresses are global.', bytes: 32, fixed: true }),
    endpoint_configuration: withdrawnRef('Endpoint configurations are withdrawn; always null.')
  }
})

import { OwnTicketKeys } from '../proxy/ticket-keys.js'
import { developmentIdentity, openDataPlane } from './data-plane.js'
import { CHALLENGES, DATA_PLANE_PARTS, TUNNELS } from './ports.js'
import type { OpenTraffic, Sealed } from './stages.js'

/** The data plane of this process, with the parts that capabilities have for it. */
export function openTraffic({ options, host, foundation, opened, seal }: Sealed): OpenTraffic {
  const { clock, bus, lifecycle, accessLog, sockets: inherited } = foundation
  const keys = { sticky: seal.derive('sticky'), login: seal.derive('login') }
  const development = developmentIdentity(options.zone, clock)
  const ticketKeys = new OwnTicketKeys(clock, host.predecessor?.ticketKeys)
  const [challenges, tunnels] = [opened.find(CHALLENGES), opened.find(TUNNELS)]
  const dataPlane = openDataPlane(options, foundation, {
    ...(tunnels === undefined ? {} : { tunnels }),
    events: bus,
    challenge: (at, path) => challenges?.answer(at, path),
    development,
    accessLog,
    inherited,
    stickyKeys: keys.sticky,
    ticketKeys,
    ...Object.assign({}, ...opened.all(DATA_PLANE_PARTS))
  })
  const { traffic } = dataPlane
  lifecycle.opens('upstreams', { leave: () => dataPlane.close(), upstreams: () => dataPlane.close() })
  lifecycle.opens('traffic', { drain: (within) => traffic.ports.drain(within), traffic: () => traffic.stop() })
  return { ...dataPlane, ticketKeys, development, keys }
}

import {
  failoverBackend,
  httpResponseBackend,
  staticBackend,
  tunnelGroupBackend,
  weightedBackend
} from '../../resources/backends.js'
import { splitHostport } from '../hostport.js'
import { planned, upstreamKey } from './planned.js'

const keys = (id: string) => [upstreamKey(id)]

export const staticBackends = planned(staticBackend, keys, ({ record: { id, body } }) => {
  const { host, port } = splitHostport(body.address)
  const protocol = body.tls?.enabled === true ? 'https' : 'http'
  return [[upstreamKey(id), { kind: 'upstream', form: 'address', protocol, host, port }]]
})

export const httpResponseBackends = planned(httpResponseBackend, keys, ({ record: { id, body } }) => {
  const { status_code: status, headers, body: text } = body
  return [[upstreamKey(id), { kind: 'upstream', form: 'response', status, headers, body: text }]]
})

export const weightedBackends = planned(weightedBackend, keys, ({ record: { id, body } }) => {
  const members = Object.entries(body.backends).map(([backend, weight]) => ({ upstream: upstreamKey(backend), weight }))
  return [[upstreamKey(id), { kind: 'upstream', form: 'weighted', members }]]
})

export const failoverBackends = planned(failoverBackend, keys, ({ record: { id, body } }) => [
  [upstreamKey(id), { kind: 'upstream', form: 'failover', members: body.backends.map(upstreamKey) }]
])

export const tunnelGroups = planned(tunnelGroupBackend, keys, ({ record: { id, body } }) => [
  [upstreamKey(id), { kind: 'upstream', form: 'tunnels', id, labels: body.labels }]
])

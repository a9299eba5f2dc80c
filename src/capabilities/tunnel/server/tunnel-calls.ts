import { newId } from '../../../lib/id.js'
import { answerCall, type Fields, readCall, StreamType } from '../protocol/calls.js'
import type { MuxStream } from '../protocol/stream.js'
import { type BindDenied, type EndpointClaim, type Grant, isBindDenied, type Labels } from './authority.js'
import {
  type BindRequest,
  madeUpHost,
  type Place,
  readAddress,
  readBindRequest,
  readForwardsProto,
  refuseLong
} from './binding.js'
import type { RegisteredSession } from './registry.js'
import type { SessionHost } from './session-host.js'
import { CALL, Tunnel } from './tunnel.js'

const MOST_LABELS = 32
const MOST_TEXT = 4096
/** Characters of all labels of a tunnel together. */
const MOST_LABEL_TEXT = 16_384

/** Response to a bind; agents read more members. */
interface BindAnswer extends Readonly<Record<string, unknown>> {
  /** '' on success. */
  readonly Error: string
}

interface Held {
  readonly tunnel: Tunnel
  readonly place: Place | undefined
}

/** Calls of an authenticated agent that manage its tunnels. */
export class TunnelCalls<G extends Grant> {
  readonly #session: RegisteredSession<G>
  readonly #host: SessionHost<G>
  readonly #held = new Map<string, Held>()
  /** Binds that are under way, which count as tunnels. */
  #pending = 0
  #closed = false

  constructor(session: RegisteredSession<G>, host: SessionHost<G>) {
    this.#session = session
    this.#host = host
  }

  get size(): number {
    return this.#held.size
  }

  /** Responds to one call; an unknown type ends its stream. */
  async answer(type: number, stream: MuxStream): Promise<void> {
    const fields = await readCall(stream, CALL)
    if (fields === undefined) {
      answerCall(stream, { Error: 'the request is no JSON object or too long' })
      return
    }
    switch (type) {
      case StreamType.startLabelled:
        return answerCall(stream, this.#startLabelled(fields))
      case StreamType.bind:
        return answerCall(stream, await this.#bind(fields))
      case StreamType.unbind:
        this.#drop(fields.text('id'), false)
        return answerCall(stream, { Error: '', Extra: null })
      case StreamType.serverInfo:
        return answerCall(stream, { Region: this.#host.region })
      case StreamType.patchTunnel:
        return answerCall(stream, { Error: this.#patch(fields) })
      default:
        return answerCall(stream, { Error: `streams of type ${type} are not known here` })
    }
  }

  end(id: string, message: string): boolean {
    if (!this.#held.has(id)) return false
    this.#session.stopTunnel(id, message)
    this.#drop(id, true)
    return true
  }

  endAll(message: string): void {
    for (const id of [...this.#held.keys()]) this.end(id, message)
  }

  /** The tunnel lives on elsewhere. */
  release(id: string): void {
    this.#drop(id, false)
  }

  *tunnels(): Iterable<Tunnel> {
    for (const { tunnel } of this.#held.values()) yield tunnel
  }

  closed(): void {
    this.#closed = true
    for (const id of [...this.#held.keys()]) this.#drop(id, true)
  }

  #startLabelled(fields: Fields): { readonly Id: string; readonly Error: string } {
    const labels = readLabels(fields)
    const metadata = fields.text('metadata')
    const forwardsTo = fields.text('forwardsto')
    const refusal = isBindDenied(labels)
      ? labels
      : (refuseLong({ Metadata: metadata, ForwardsTo: forwardsTo }) ?? this.#refuseLabels(labels))
    if (refusal !== undefined) return { Id: '', Error: refusal.refused }
    const http2 = readForwardsProto(fields)
    if (typeof http2 === 'object') return { Id: '', Error: http2.refused }
    const id = this.#labelledId(labels as Labels, metadata, forwardsTo)
    const tunnel = new Tunnel(this.#session, {
      id,
      labels: labels as Labels,
      proto: '',
      url: '',
      name: '',
      description: '',
      forwardsTo,
      metadata,
      proxyProtocol: 0,
      pooled: false,
      http2,
      startedAt: this.#host.clock.wall()
    })
    this.#hold(tunnel, undefined)
    return { Id: id, Error: '' }
  }

  #refuseLabels(labels: Labels): BindDenied | undefined {
    return this.#refuseMore() ?? this.#host.authority.mayBindLabels(this.#session.grant, labels)
  }

  /** An agent that comes back with equal offers gets their ids again, one for one. */
  #labelledId(labels: Labels, metadata: string, forwardsTo: string): string {
    for (let ordinal = 0; ; ordinal++) {
      const id = this.#host.identities.labelledId(this.#session.id, labels, metadata, forwardsTo, ordinal)
      if (!this.#held.has(id)) return id
    }
  }

  async #bind(fields: Fields): Promise<object> {
    const request = readBindRequest(fields, this.#host.zone)
    if (isBindDenied(request)) return refusedBind(request)
    const { credential } = this.#session.grant
    const claim = this.#host.identities.readEndpointToken(request.token, credential)
    const wanted = this.#wanted(request, claim)
    const { ip } = this.#session
    const author = { credential, ip }
    const { binds } = this.#host
    const refusal =
      this.#refuseMore() ?? this.#refuseAt(request, wanted) ?? binds.refusal(author, request.trafficPolicy)
    if (refusal !== undefined) return refusedBind(refusal)
    this.#pending++
    try {
      const opened = await this.#open(request, wanted)
      binds.looked(author, request.trafficPolicy, opened.Error === '')
      return opened
    } catch (error) {
      this.#host.failed(error)
      return refusedBind({ refused: 'the endpoint cannot be opened now; the log of the server says why' })
    } finally {
      this.#pending--
    }
  }

  /** Returns the requested, the former, or a new endpoint; the former id is valid only for the same address. */
  #wanted(request: BindRequest, claim: EndpointClaim | undefined): EndpointClaim {
    const { proto, at } = request
    if (claim !== undefined && (at === undefined ? claim.made : at === claim.at)) return claim
    const id = newId('tn', this.#host.clock.wall())
    if (at !== undefined) return { id, at, made: false }
    return { id, at: proto === 'tcp' ? '' : madeUpHost(this.#host.zone), made: true }
  }

  #refuseAt({ proto }: BindRequest, { at, made }: EndpointClaim): BindDenied | undefined {
    const { authority } = this.#host
    const { grant } = this.#session
    if (proto === 'tcp') return authority.mayBindAddress(grant, made ? undefined : at)
    return authority.mayBindDomain(grant, at)
  }

  async #open(request: BindRequest, wanted: EndpointClaim): Promise<BindAnswer> {
    const { endpoints, identities, clock } = this.#host
    const { grant } = this.#session
    const { proto, pooled, http2, trafficPolicy, name, description, metadata } = request
    const { id } = wanted
    const address = proto === 'tcp' ? readAddress(wanted.at) : undefined
    const host = proto === 'tcp' ? (address?.host ?? '') : wanted.at
    const port = address?.port
    const wish = { proto, host, port, http2, pooled, trafficPolicy, name, description, metadata, grant }
    const place = await endpoints.claim(wish, id, this.#session)
    if (isBindDenied(place)) return refusedBind(place)
    if (this.#closed) {
      place.leave()
      return refusedBind({ refused: 'the session is over' })
    }
    this.#drop(id, false)
    const { forwardsTo, proxyProtocol } = request
    const { url } = place
    const texts = { name, description, forwardsTo, metadata }
    const options = { id, labels: undefined, proto, url, ...texts, proxyProtocol, pooled, http2 }
    const tunnel = new Tunnel(this.#session, { ...options, startedAt: clock.wall() })
    place.join(tunnel)
    this.#hold(tunnel, place)
    const at = proto === 'tcp' ? url.slice('tcp://'.length) : wanted.at
    const token = identities.endpointToken({ id, at, made: wanted.made }, grant.credential)
    const extra = { Token: token, TunnelID: id }
    return { Id: id, URL: url, Proto: proto, Opts: request.options, Error: '', Extra: extra }
  }

  #patch(fields: Fields): string {
    const held = this.#held.get(fields.text('tunnelid'))
    if (held === undefined) return 'the session has no such tunnel'
    if (fields.text('trafficpolicy') !== '')
      return 'the traffic policy of a running endpoint cannot be changed; bind it anew'
    const { tunnel } = held
    const [name, description, metadata] = [fields.text('name'), fields.text('description'), fields.text('metadata')]
    const long = refuseLong({ Name: name, Description: description, Metadata: metadata })
    if (long !== undefined) return long.refused
    tunnel.name = name || tunnel.name
    tunnel.description = description || tunnel.description
    tunnel.metadata = metadata || tunnel.metadata
    this.#host.registry.changed(tunnel)
    return ''
  }

  #refuseMore(): BindDenied | undefined {
    const { tunnels } = this.#host.limits
    if (this.#held.size + this.#pending < tunnels) return undefined
    return { refused: `a session may have ${tunnels} tunnels` }
  }

  #hold(tunnel: Tunnel, place: Place | undefined): void {
    this.#releaseFormer(tunnel.id)
    this.#held.set(tunnel.id, { tunnel, place })
    this.#host.registry.add(tunnel)
  }

  /** The same offer on a former connection of this agent. */
  #releaseFormer(id: string): void {
    for (const session of [...this.#host.registry.sessions()]) {
      const same = session.id === this.#session.id && session.leg === this.#session.leg
      if (same && session !== this.#session) session.releaseTunnel(id)
    }
  }

  #drop(id: string, cut: boolean): void {
    const held = this.#held.get(id)
    if (held === undefined) return
    this.#held.delete(id)
    this.#host.registry.remove(held.tunnel)
    held.tunnel.end(cut)
    held.place?.leave()
  }
}

function refusedBind({ refused }: BindDenied): BindAnswer {
  return { Id: '', URL: '', Proto: '', Opts: {}, Error: refused, Extra: { Token: '' } }
}

function readLabels(fields: Fields): Labels | BindDenied {
  const labels: [string, string][] = []
  for (const [key, value] of Object.entries(fields.raw('labels'))) {
    if (typeof value !== 'string' || key === '' || key.length > MOST_TEXT || value.length > MOST_TEXT) {
      return { refused: 'a label is a name and a text' }
    }
    labels.push([key, value])
  }
  if (labels.length === 0) return { refused: 'a tunnel needs at least one label' }
  if (labels.length > MOST_LABELS) return { refused: `a tunnel may have ${MOST_LABELS} labels` }
  const characters = labels.reduce((sum, [key, value]) => sum + key.length + value.length, 0)
  if (characters > MOST_LABEL_TEXT) return { refused: `the labels are longer than ${MOST_LABEL_TEXT} characters` }
  return Object.fromEntries(labels)
}

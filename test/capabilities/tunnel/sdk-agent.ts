import { SessionBuilder } from '@ngrok/ngrok'
import type { AgentKind } from './agent-suite.js'

/** The open-source agent SDK as it comes from the registry. */
export const sdkAgent: AgentKind = {
  name: 'SDK',
  async start(server, token, offer) {
    const session = await new SessionBuilder()
      .authtoken(token)
      .serverAddr(server.address)
      .caCert(Buffer.from(server.ca))
      .connect()
    const bytes = 'endpoint' in offer && (offer.endpoint === 'tcp' || offer.endpoint === 'tls')
    const to = `${bytes ? 'tcp' : 'http'}://127.0.0.1:${offer.target}`
    const builder = () => {
      if ('labels' in offer) {
        const labelled = session.labeledListener()
        for (const [key, value] of Object.entries(offer.labels)) labelled.label(key, value)
        return labelled
      }
      if (offer.endpoint === 'tcp') return session.tcpEndpoint()
      const endpoint = offer.endpoint === 'tls' ? session.tlsEndpoint() : session.httpEndpoint()
      if (offer.at !== undefined) endpoint.domain(offer.at)
      if (offer.policy !== undefined) endpoint.trafficPolicy(offer.policy)
      return endpoint
    }
    try {
      const listener = await builder().listen()
      const stopped = listener.forward(to).then(
        () => 'ended',
        (error: Error) => error.message
      )
      let closing: Promise<void> | undefined
      return {
        id: listener.id(),
        url: listener.url() ?? '',
        stopped,
        close: () => {
          closing ??= listener
            .close()
            .catch(() => undefined)
            .then(() => session.close())
          return closing
        }
      }
    } catch (error) {
      await session.close()
      throw error
    }
  }
}

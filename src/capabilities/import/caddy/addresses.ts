import type { HostPort } from '../model.js'

interface Ports {
  readonly http: number
  readonly https: number
  /** True if Caddy requests certificates automatically. */
  readonly isAutomatic: boolean
}

/** Returns host and ports of a site address such as `https://a.test:8443` or `:8080`; host `*` for every host. */
export function readAddress(
  address: string,
  { http, https, isAutomatic }: Ports
): { readonly name: string; readonly ports: readonly HostPort[]; readonly path: string } {
  const [, scheme, rest = ''] = /^(?:(https?):\/\/)?(.*)$/s.exec(address) ?? []
  const slash = rest.indexOf('/')
  const authority = slash === -1 ? rest : rest.slice(0, slash)
  const path = slash === -1 ? '' : rest.slice(slash).replace(/^\/\*?$/, '')
  const [, host = '', port] = /^(.*?)(?::(\d+))?$/s.exec(authority) ?? []
  const name = host === '' ? '*' : host.startsWith('${') ? host : host.toLowerCase()
  const given = port === undefined ? undefined : Number(port)
  if (scheme === 'http' || given === http) return { name, ports: [{ port: given ?? http, tls: false }], path }
  if (given !== undefined) {
    const tls = scheme === 'https' || given === https || (name !== '*' && isAutomatic)
    return { name, ports: [{ port: given, tls }], path }
  }
  // A name alone has TLS and a redirect from HTTP.
  return isAutomatic || scheme === 'https'
    ? {
        name,
        ports: [
          { port: http, tls: false },
          { port: https, tls: true }
        ],
        path
      }
    : { name, ports: [{ port: http, tls: false }], path }
}

import type { Options } from './options.js'

/** The host names under which the options say that the API is reached, beside the loopback ones; without ports. */
export function apiHosts({ api }: Pick<Options, 'api'>): string[] {
  const published = api.public_url === undefined ? [] : [new URL(api.public_url).hostname.replace(/^\[|\]$/g, '')]
  return [api.listen.host, ...published, ...api.allowed_hosts]
}

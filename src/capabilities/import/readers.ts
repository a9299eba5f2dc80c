import type { Reader } from './model.js'

interface Format {
  readonly title: string
  load(): Promise<Reader>
  /** Has a program that translates its files first, with `--adapt`. */
  readonly adapts?: true
}

/** Languages that `sluice import` reads, by the word behind `import`. */
export const FORMATS: Readonly<Record<string, Format>> = {
  nginx: { title: 'nginx', load: async () => (await import('./nginx/read.js')).readNginx },
  caddy: { title: 'Caddy', adapts: true, load: async () => (await import('./caddy/read.js')).readCaddy },
  haproxy: { title: 'HAProxy', load: async () => (await import('./haproxy/read.js')).readHaproxy },
  traefik: { title: 'Traefik', load: async () => (await import('./traefik/read.js')).readTraefik },
  ngrok: { title: 'the ngrok agent', load: async () => (await import('./ngrok/read.js')).readNgrok }
}

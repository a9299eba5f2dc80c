import type { Reader } from './model.js'

interface Format {
  readonly title: string
  load(): Promise<Reader>
}

/** Languages that `sluice import` reads, by the word behind `import`. */
export const FORMATS: Readonly<Record<string, Format>> = {
  nginx: { title: 'nginx', load: async () => (await import('./nginx/read.js')).readNginx }
}

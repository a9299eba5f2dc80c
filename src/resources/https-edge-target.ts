/** What routes must know of their edge, which knows them in full. */
export const HTTPS_EDGE = { name: 'https_edge', path: '/edges/https', idPrefix: 'edghts' } as const

import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { contentSecurityPolicy, mockServer } from './src/mock/plugin.ts'

// The mock answers /api/ of the development and the preview server only; no module of the page
// imports it. MOCK=off passes /api/ to a console server, at CONSOLE.
const headers = { 'Content-Security-Policy': contentSecurityPolicy }
const consoleServer = process.env['CONSOLE'] ?? 'http://127.0.0.1:8080'
const proxy = { '/api': { target: consoleServer } }
const mock = process.env['MOCK'] !== 'off'

export default defineConfig({
  base: './', // the page works below any path
  plugins: [react(), ...(mock ? [mockServer()] : [])],
  // In development Vite adds style elements and an inline script, so the policy is not sent there.
  server: { host: '127.0.0.1', ...(mock ? {} : { proxy }) },
  preview: { host: '127.0.0.1', headers, ...(mock ? {} : { proxy }) },
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
})

# Stage one builds a wheel and installs it, with the dependencies it was tested with, into a virtual
# environment; the final image gets that environment and has no means to build or install anything.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY examples examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && python -m venv --without-pip /opt/fairlead \
 && pip --python /opt/fairlead/bin/python install --no-cache-dir --constraint constraints.txt /wheels/*.whl

FROM python:${PYTHON}-slim
RUN pip uninstall --yes pip
COPY --from=build /opt/fairlead /opt/fairlead
ENV PATH=/opt/fairlead/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The root file system may be read-only: nothing is written unless a recording is asked for.
USER 65532:65532
ENTRYPOINT ["fairlead"]
CMD ["scheduler"]
